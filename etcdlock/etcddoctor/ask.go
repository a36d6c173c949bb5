package etcddoctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdkeys"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// askLimit bounds each question to one member: as long as pawl waits for one before it
// tries the next.
const askLimit = etcdstore.MaxCallTimeout

// A member is one server of the cluster, and what it answered.
type member struct {
	endpoint string // as the client wants it: with a scheme
	address  string // host:port
	listens  bool   // a connection was accepted
	alive    bool   // it answered, if only with a refusal
	err      error  // why it has no status

	metricsErr error // why it has no metrics

	client  *clientv3.Client
	web     *http.Client
	status  *clientv3.StatusResponse // nil: it does not answer
	list    []*pb.Member             // the members that it knows
	metrics metrics                  // nil: cannot be read
	written uint64                   // the raft index after the transactions of the rights; 0: there were none
}

// askAll asks the members of the URL, each over a client of its own.
func askAll(ctx context.Context, config clientv3.Config) []*member {
	members := make([]*member, len(config.Endpoints))
	var work sync.WaitGroup
	for i, endpoint := range config.Endpoints {
		members[i] = newMember(ctx, endpoint, config)
		work.Go(func() { members[i].ask(ctx, config) })
	}
	work.Wait()
	return members
}

func newMember(ctx context.Context, endpoint string, config clientv3.Config) *member {
	_, address, _ := strings.Cut(endpoint, "://")
	transport := &http.Transport{TLSClientConfig: config.TLS, DialContext: driver.DialerOf(ctx)}
	return &member{endpoint: endpoint, address: address, web: &http.Client{Transport: transport, Timeout: askLimit}}
}

// ask connects and reads the status.
func (m *member) ask(ctx context.Context, config clientv3.Config) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	config.Endpoints = []string{m.endpoint}
	if d := driver.DialerOf(ctx); d != nil {
		etcdstore.DialWith(&config, d)
	}
	if m.err = m.dial(ctx); m.err != nil {
		return
	}
	m.listens = true
	if m.client, m.err = etcdstore.Connect(ctx, config); m.err != nil {
		return
	}
	status, err := m.client.Status(ctx, m.endpoint)
	m.alive = err == nil || refused(err)
	if err != nil {
		m.err = fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
		if refused(err) {
			m.err = fmt.Errorf("%w: %w", driver.ErrDenied, err)
		}
		return
	}
	m.metrics, m.metricsErr = m.readMetrics(ctx)
	m.status = status
	// A member answers this alone, so that it can be asked without a majority.
	if list, err := m.client.MemberList(ctx, clientv3.WithSerializable()); err == nil {
		m.list = list.Members
	}
}

// dial finds out at once where nothing listens: the client would try again until ctx ends.
func (m *member) dial(ctx context.Context) error {
	dial := driver.DialerOf(ctx)
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", m.address)
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return conn.Close()
}

// askOthers asks the members that the URL does not name, at the addresses that they told
// the cluster, whether they are there. The password is not sent: those addresses are not
// the user's. A refusal is an answer.
func askOthers(ctx context.Context, config clientv3.Config, c *cluster) (others []*member) {
	named := map[uint64]bool{}
	for _, m := range c.answering() {
		named[m.status.Header.MemberId] = true
	}
	config.Username, config.Password = "", ""
	var work sync.WaitGroup
	for _, known := range c.list() {
		if named[known.ID] || len(known.ClientURLs) == 0 || c.names(known) {
			continue
		}
		m := newMember(ctx, known.ClientURLs[0], config)
		others = append(others, m)
		work.Go(func() { m.ask(ctx, config) })
	}
	work.Wait()
	return others
}

// names reports whether the URL has an address of a member, which does not answer there.
func (c *cluster) names(known *pb.Member) bool {
	for _, m := range c.named {
		for _, u := range known.ClientURLs {
			if _, address, _ := strings.Cut(u, "://"); address == m.address {
				return true
			}
		}
	}
	return false
}

// list returns the members of the cluster as the first that answers knows them.
func (c *cluster) list() []*pb.Member {
	for _, m := range c.answering() {
		if len(m.list) > 0 {
			return m.list
		}
	}
	return nil
}

// refused reports whether a member answered that the user may not do that.
func refused(err error) bool {
	for _, known := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthFailed} {
		if errors.Is(rpctypes.Error(err), known) {
			return true
		}
	}
	return errors.Is(err, driver.ErrDenied)
}

// read makes a read that a majority has to confirm.
func (m *member) read(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	_, err := m.client.Get(ctx, key, clientv3.WithCountOnly())
	if refused(err) {
		return nil // the right is judged after the majority was asked
	}
	return err
}

// hasLines reports whether locks are held in the member's cluster; false if it does not tell.
func (m *member) hasLines(ctx context.Context, prefix string) bool {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	got, err := m.client.Get(ctx, prefix+etcdkeys.LinesDir, clientv3.WithPrefix(), clientv3.WithCountOnly())
	return err == nil && got.Count > 0
}

// fetch gets a page of the member's HTTP server.
func (m *member) fetch(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.endpoint+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := m.web.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("%s answers %s", path, response.Status)
	}
	return response, nil
}

// now reads the member's clock, which it tells with every page, in whole seconds.
func (m *member) now(ctx context.Context) (time.Time, error) {
	response, err := m.fetch(ctx, "/version")
	if err != nil {
		return time.Time{}, err
	}
	response.Body.Close()
	at, err := http.ParseTime(response.Header.Get("Date"))
	return at.Add(time.Second / 2), err
}

func (m *member) close() {
	m.web.CloseIdleConnections()
	if m.client != nil {
		_ = m.client.Close() // nothing is under way
	}
}
