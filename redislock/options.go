package redislock

import (
	"errors"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// DefaultPrefix is what holds are named with unless [Prefix] says otherwise.
const DefaultPrefix = "pawl:"

// DefaultWaitTimeout is how long a grant waits for its replicas unless [Wait] says
// otherwise.
const DefaultWaitTimeout = time.Second

// An Option changes how an engine uses Redis.
type Option func(*options)

type options struct {
	prefix    string
	replicas  int
	timeout   time.Duration // for the replicas
	evictable bool
	bare      bool

	policyPause time.Duration
}

// Prefix sets what comes before a name in the key of its hold; with "" the key is
// the name itself. One prefix must not begin with another that is in use.
func Prefix(p string) Option { return func(o *options) { o.prefix = p } }

// Wait makes a grant wait until k replicas have it. One that fewer have confirmed
// within timeout is given back, and is an error; 0 is [DefaultWaitTimeout]. What
// was granted can still be lost: a replica may be promoted that does not have it.
func Wait(k int, timeout time.Duration) Option {
	return func(o *options) {
		o.replicas, o.timeout = k, timeout
		if timeout == 0 {
			o.timeout = DefaultWaitTimeout
		}
	}
}

// AllowEviction uses a server that may drop keys when its memory is full. A holder
// whose key is dropped learns it at its next beat; until then another may hold.
func AllowEviction() Option { return func(o *options) { o.evictable = true } }

// WithoutScripts is for servers that forbid EVAL and have commands that compare:
// Valkey 9 and newer. Such an engine has no line, nothing shared or counted, and
// no tokens.
func WithoutScripts() Option { return func(o *options) { o.bare = true } }

// CheckOptions says what is wrong with options, as far as that can be said without
// a server. It is for adapters that open URLs.
func CheckOptions(cluster bool, opts ...Option) error {
	o := collect(opts)
	return driver.Join(newLayout(o.prefix, "", cluster).check(), o.check())
}

func collect(opts []Option) options {
	o := options{prefix: DefaultPrefix, policyPause: policyPause}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

func (o options) check() error {
	switch {
	case o.replicas < 0:
		return errors.New("redislock: a negative number of replicas to wait for")
	case o.replicas > 0 && o.timeout < time.Millisecond:
		return errors.New("redislock: the time to wait for replicas is less than a millisecond")
	case o.replicas > 0 && o.bare:
		return errors.New("redislock: waiting for replicas needs scripts")
	}
	return nil
}

// infoField returns the value of a line "name:value" of INFO.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
