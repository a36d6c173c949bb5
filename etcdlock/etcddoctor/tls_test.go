package etcddoctor

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// encrypted starts a listener that speaks TLS in front of a server.
func encrypted(t *testing.T, server, cert, key string) (address string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { listener.Close(); work.Wait() })
	work.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() { pipe(in, server) })
		}
	})
	return listener.Addr().String()
}

// pipe copies both ways until one side ends.
func pipe(in net.Conn, server string) {
	defer in.Close()
	out, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(in, out) // ends with either
		in.Close()
	})
	_, _ = io.Copy(out, in)
	out.Close()
	back.Wait()
}

func TestAMemberIsExaminedOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := testserver.Certificate(t, t.TempDir(), "server", "127.0.0.1")
	address := encrypted(t, testserver.NewEtcd(t, "--unsafe-no-fsync=false").Addr(), cert, key)
	found := doctortest.Examine(t, "etcds://"+address+"/team?tls-ca="+url.QueryEscape(cert))
	doctortest.CleanButTimes(t, found, "members")
	doctortest.Expect(t, found, "fsync", address, doctor.OK, "since it started") // from the metrics
	doctortest.Expect(t, found, "clock", address, doctor.OK)
	if _, err := doctor.Examine(t.Context(), "etcds://"+address); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("an unknown authority: %v", err)
	}
}
