package zkdoctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkpath"
	"github.com/pawl-go/pawl/zklock/internal/zkstore"
)

// A server is one of the URL, and what it answered.
type server struct {
	address string
	err     error             // why it does not answer at all
	srvr    map[string]string // its state; nil: it does not serve, or does not tell
	conf    map[string]string // its settings; nil: it does not tell
	conn    *zkstore.Conn     // a session at this server alone; nil: it does not serve
	refusal error             // why there is no session
}

// ask asks all servers, side by side.
func (e *ensemble) ask(ctx context.Context) {
	var work sync.WaitGroup
	for _, address := range e.settings.Servers {
		s := &server{address: address}
		e.servers = append(e.servers, s)
		work.Go(func() { s.ask(ctx, e.settings) })
	}
	work.Wait()
}

func (s *server) ask(ctx context.Context, settings zkpath.Settings) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	text, err := s.word(ctx, "srvr")
	if err != nil {
		s.err = err
		return
	}
	s.srvr = parse(text, ": ")
	if text, err := s.word(ctx, "conf"); err == nil {
		s.conf = parse(text, "=")
	}
	if s.mode() == readOnly { // it would refuse the session again and again
		return
	}
	s.conn, s.refusal = connect(ctx, []string{s.address}, sessionTimeout, settings)
}

// What a server says of itself that pawl acts on.
const (
	standalone = "standalone"
	leading    = "leader"
	following  = "follower"
	readOnly   = "read-only"
)

func (s *server) mode() string { return s.srvr["Mode"] }

// word sends one of ZooKeeper's words of four letters, on a connection of its own.
func (s *server) word(ctx context.Context, word string) (string, error) {
	conn, err := dial(ctx, "tcp", s.address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if until, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(until); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	const most = 4 << 20
	text, err := io.ReadAll(io.LimitReader(conn, most))
	if err != nil && len(text) == 0 {
		return "", err
	}
	return string(text), nil
}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	if d := driver.DialerOf(ctx); d != nil {
		return d(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// parse reads lines of a key and a value. It returns nil if there are none: a server that
// does not serve, or was not allowed to answer, says so in a sentence.
func parse(text, separator string) map[string]string {
	var all map[string]string
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			if all == nil {
				all = map[string]string{}
			}
			all[key] = value
		}
	}
	return all
}

// sessionTimeout is that of the examiner's sessions.
const sessionTimeout = 10 * time.Second

// connect opens a session at one of the servers.
func connect(ctx context.Context, servers []string, timeout time.Duration, settings zkpath.Settings) (*zkstore.Conn, error) {
	values := ctx
	conn, err := zkstore.Connect(servers, timeout, false, func(ctx context.Context, network, address string, limit time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return dial(driver.WithDialer(ctx, driver.DialerOf(values)), network, address)
	})
	if err != nil {
		return nil, err
	}
	err = conn.Ready(ctx)
	if err == nil && settings.User != "" {
		err = conn.Call(ctx, func(c *zk.Conn) error { return c.AddAuth("digest", []byte(settings.User+":"+settings.Password)) })
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// barrier is a write that changes nothing: a majority has to agree on it.
func (s *server) barrier(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err := s.conn.Call(ctx, func(c *zk.Conn) error {
		_, err := c.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
		return err
	})
	if errors.Is(err, driver.ErrDenied) {
		return nil // an answer: the majority has agreed that it is denied
	}
	return err
}

// denied is the finding about a word that a server does not answer.
func (s *server) denied(check, word, meaning string) doctor.Finding {
	return doctor.Warn(check, fmt.Sprintf("cannot read them: the server does not answer %s", word), meaning,
		"4lw.commands.whitelist=srvr,conf,mntr")
}
