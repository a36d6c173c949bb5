package redisdoctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// A server is one Redis, with what it says of itself.
type server struct {
	*store
	addr   string
	c      redis.Client
	user   string            // that we are, for mends
	info   map[string]string // INFO; nil if that cannot be read
	config map[string]string // CONFIG GET; nil if that cannot be read
	unread []unread
}

// unread is something that the server does not let us read.
type unread struct {
	command, right string
	err            error
}

// settings are read by CONFIG GET.
var settings = []string{
	"appendfsync", "no-appendfsync-on-rewrite", "save", "dir", "stop-writes-on-bgsave-error",
	"min-replicas-to-write", "min-replicas-max-lag", "timeout", "cluster-require-full-coverage",
}

// connect connects to a server and reads what it says of itself.
func connect(ctx context.Context, t *store, addr string) (*server, error) {
	o := t.Client
	o.InitAddress, o.ForceSingleClient, o.Sentinel = []string{addr}, true, redis.SentinelOption{}
	s, err := dial(ctx, t, addr, o)
	if err != nil {
		return nil, err
	}
	if err := s.read(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// dial connects. The client library takes no ctx for that.
func dial(ctx context.Context, t *store, addr string, o redis.ClientOption) (*server, error) {
	ctx, cancel := context.WithTimeout(ctx, contact)
	defer cancel()
	type connected struct {
		c   redis.Client
		err error
	}
	done := make(chan connected)
	go func() { // ends by the timeouts of o
		c, err := redis.NewClient(o)
		select {
		case done <- connected{c, err}:
		case <-ctx.Done():
			if c != nil {
				c.Close()
			}
		}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			if r.c != nil {
				r.c.Close()
			}
			return nil, wrap(addr, serverError(r.err))
		}
		return &server{store: t, addr: addr, c: r.c, user: o.Username}, nil
	case <-ctx.Done():
		return nil, wrap(addr, ctx.Err())
	}
}

// wrap wraps an error in the sentinel of package driver that it belongs to. A timeout is
// that of a server that does not answer, also where it is the client's own.
func wrap(addr string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s does not answer", addr)
	}
	return redisclient.Wrap(err)
}

func (s *server) close() { s.c.Close() }

// do sends a command.
func (s *server) do(ctx context.Context, words ...string) (redis.RedisMessage, error) {
	m, err := s.c.Do(ctx, s.c.B().Arbitrary(words...).Build()).ToMessage()
	if redis.IsRedisNil(err) {
		return m, nil
	}
	return m, serverError(err)
}

// serverError turns an error reply into redisclient's.
func serverError(err error) error {
	if e, ok := redis.IsRedisErr(err); ok && !e.IsNil() {
		return redisclient.ServerError(e.Error())
	}
	return err
}

// read reads INFO and the settings. What the server refuses to tell is noted; it fails if
// there is no answer at all.
func (s *server) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, contact)
	defer cancel()
	text, err := s.text(ctx, "INFO")
	switch {
	case redisclient.Code(err) == "":
		if err != nil {
			return wrap(s.addr, err)
		}
		s.info = fields(text)
		if mode, told := s.info["server_mode"]; told { // as Valkey calls it
			s.info["redis_mode"] = mode
		}
	default:
		s.refused("INFO", "info", err)
	}
	if m, err := s.do(ctx, "ACL", "WHOAMI"); err == nil { // refused, it is the URL's
		s.user, _ = m.ToString()
	}
	if s.user == "" {
		s.user = "default"
	}
	return s.readSettings(ctx)
}

func (s *server) readSettings(ctx context.Context) error {
	config := map[string]string{}
	for _, name := range settings { // a server before Redis 7 takes one at a time
		m, err := s.do(ctx, "CONFIG", "GET", name)
		if err != nil {
			if redisclient.Code(err) == "" {
				return wrap(s.addr, err)
			}
			s.refused("CONFIG", "config|get", err)
			return nil
		}
		pairs, err := m.AsStrMap()
		if err != nil {
			return redisclient.Wrap(err)
		}
		for k, v := range pairs {
			config[k] = v
		}
	}
	s.config = config
	return nil
}

func (s *server) refused(command, right string, err error) {
	s.unread = append(s.unread, unread{command, right, err})
}

func (s *server) text(ctx context.Context, words ...string) (string, error) {
	m, err := s.do(ctx, words...)
	if err != nil {
		return "", err
	}
	text, err := m.ToString()
	return strings.TrimPrefix(text, "txt:"), err // the client library leaves in what format a text is in
}

// number returns a number of INFO; 0 if it has none of that name.
func (s *server) number(name string) int64 { return number(s.info[name]) }

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// fields returns the lines "name:value" of a reply.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// parts returns the parts "name=value" of a field, which commas separate.
func parts(text string) map[string]string {
	all := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if name, value, ok := strings.Cut(part, "="); ok {
			all[name] = value
		}
	}
	return all
}

// setUser is the line that gives our user rights.
func (s *server) setUser(rights ...string) string {
	return "ACL SETUSER " + s.user + " " + strings.Join(rights, " ")
}

// severalSettings is the first version whose CONFIG SET takes more than one setting.
var severalSettings = release{7, 0, 0}

// configSet is the line that changes settings. An older server is told the first one; the
// next examination names the others if they are needed.
func (s *server) configSet(first string, others ...string) string {
	if is, ok := parseRelease(s.info["redis_version"]); !ok || is.before(severalSettings) {
		others = nil
	}
	return strings.Join(append([]string{"CONFIG SET", first}, others...), " ")
}

func host(addr string) string { h, _, _ := net.SplitHostPort(addr); return h }
func port(addr string) string { _, p, _ := net.SplitHostPort(addr); return p }
