package testserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An EtcdCluster is several etcd members that elect a leader. Its members can be
// started, stopped and paused one by one, each like a [NewEtcd].
type EtcdCluster struct {
	Members []*Server
	t       testing.TB
	urls    []string // of the members, for each other
}

// NewEtcds starts a cluster of n members and returns when all of them serve. With a
// nil reach the network has no faults; otherwise a message from one member to
// another goes to the address that reach returns. args are as for [Etcd].
func NewEtcds(t testing.TB, n int, reach Reach, args ...string) *EtcdCluster {
	t.Helper()
	spec := newEtcd(t)
	c := &EtcdCluster{t: t}
	ports, urls := make([]int, n), make([]string, n)
	for i := range n {
		ports[i] = FreePort(t)
		urls[i] = fmt.Sprintf("http://127.0.0.1:%d", ports[i])
		if reach != nil {
			// Each member sends through a proxy of its own: all members must use
			// the same URL for a member, and a test must know the sender.
			urls[i] = fmt.Sprintf("http://member%d.invalid:2380", i)
		}
	}
	c.urls = urls
	for i := range n {
		spec.Ports, spec.Ready = 1, nil // it only serves with a majority of the others
		spec.Args = clusterArgs(i, ports[i], urls, args)
		spec.Env = nil
		if reach != nil {
			spec.Env = []string{"HTTP_PROXY=" + peerProxy(t, i, ports, reach)}
		}
		c.Members = append(c.Members, Start(t, spec))
	}
	t.Cleanup(func() { // a member that is asked to stop looks for a successor, the last one for seconds
		for _, s := range c.Members {
			s.Kill()
		}
	})
	c.Await()
	return c
}

func clusterArgs(i, port int, urls, args []string) func(*Server) []string {
	var members []string
	for j, u := range urls {
		members = append(members, fmt.Sprintf("member%d=%s", j, u))
	}
	return func(s *Server) []string {
		client := "http://" + s.Addr()
		return append([]string{
			"--name", fmt.Sprintf("member%d", i),
			"--data-dir", filepath.Join(s.Dir(), "data"),
			"--listen-client-urls", client,
			"--advertise-client-urls", client,
			"--listen-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", port),
			"--initial-advertise-peer-urls", urls[i],
			"--initial-cluster", strings.Join(members, ","),
			withoutFsync,
		}, args...)
	}
}

// peerProxy starts the proxy through which member from sends, and returns its URL.
func peerProxy(t testing.TB, from int, ports []int, reach Reach) string {
	way := make(map[string]string, len(ports))
	for to, port := range ports {
		if to != from {
			way[fmt.Sprintf("member%d.invalid:2380", to)] = reach(from, to, fmt.Sprintf("127.0.0.1:%d", port))
		}
	}
	transport := &http.Transport{}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", way[r.In.URL.Host]
		},
		FlushInterval: -1, // a stream of messages does not end
		Transport:     transport,
		ErrorLog:      log.New(io.Discard, "", 0), // tests cut connections on purpose
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		transport.CloseIdleConnections()
		proxy.Close()
	})
	return proxy.URL
}

// Addrs returns the addresses for clients.
func (c *EtcdCluster) Addrs() []string {
	addrs := make([]string, len(c.Members))
	for i, s := range c.Members {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Await returns when every member serves and knows a leader.
func (c *EtcdCluster) Await() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i, s := range c.Members {
		for {
			err := etcdReady(ctx, s)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				c.t.Fatalf("member %d of the cluster does not serve: %v", i, err)
			case <-time.After(20 * time.Millisecond): // poll: there is no notification
			}
		}
	}
}

// Leader returns the member that the members of among say is leading; by default
// all are asked. It waits until one of them knows.
func (c *EtcdCluster) Leader(among ...int) int {
	c.t.Helper()
	if len(among) == 0 {
		for i := range c.Members {
			among = append(among, i)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		for _, i := range among {
			if status, err := etcdStatus(ctx, c.Members[i]); err == nil && status.Leader == status.Header.Member && status.Leader != "0" {
				return i
			}
		}
		time.Sleep(20 * time.Millisecond) // poll: there is no notification
	}
	c.t.Fatal("the cluster elects no leader")
	return -1
}

type status struct {
	Header struct {
		Member string `json:"member_id"`
	}
	Leader string
}

// etcdStatus asks a member through its HTTP gateway.
func etcdStatus(ctx context.Context, s *Server) (got status, err error) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	return got, etcdPost(ctx, s, "/v3/maintenance/status", "{}", &got)
}

func etcdPost(ctx context.Context, s *Server, path, body string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Addr()+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}
