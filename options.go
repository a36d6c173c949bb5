package pawl

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	defaultTTL  = 10 * time.Second
	minTTL      = 10 * time.Millisecond
	maxTTL      = 365 * 24 * time.Hour
	longestHold = 100 * 365 * 24 * time.Hour // an instant plus this is one
)

// An Option changes a client, or one lock of it.
type Option func(*options)

// options are the settings of one lock; a client's are the defaults of its locks.
type options struct {
	ttl       time.Duration
	wait      time.Duration // 0: as long as ctx allows; see limited
	limited   bool          // wait counts, also if it is 0
	maxHold   time.Duration // 0: none
	fixed     bool          // no renewal
	reentry   bool
	fair      bool
	note      string
	observers observers
	err       error // the first invalid option
}

// WithTTL sets how long the lock outlives a holder that died or was cut off. It is
// rounded up to a whole number of milliseconds, at least 10. While a client uses more
// than 32 different TTLs, further ones are rounded up by less than a quarter. The
// default is 10 s.
func WithTTL(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 || d > maxTTL {
			o.refuse("TTL of %v: more than 0, at most %v", d, maxTTL)
			return
		}
		o.ttl = max(d, minTTL)
		if rest := o.ttl % time.Millisecond; rest != 0 {
			o.ttl += time.Millisecond - rest
		}
	}
}

// WithWait bounds how long an acquire waits; then it is ErrHeld, and ErrUnreachable too
// if the store did not answer. Zero asks once.
func WithWait(d time.Duration) Option {
	return func(o *options) {
		if d < 0 {
			o.refuse("wait of %v: 0 asks once, more waits", d)
			return
		}
		o.wait, o.limited = d, true
	}
}

// WithMaxHold bounds a hold however well its renewal goes: then its context ends
// with ErrLost and the lock is given back.
func WithMaxHold(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 || d > longestHold {
			o.refuse("maximum hold of %v: more than 0, at most %v; leave WithMaxHold out for none", d, longestHold)
			return
		}
		o.maxHold = d
	}
}

// WithoutRenewal makes leases that last one TTL from the grant and are never
// prolonged, for programs whose TTL is longer than their longest run.
func WithoutRenewal() Option { return func(o *options) { o.fixed = true } }

// WithReentry lets a lease's own context take the same lock again; it is given
// back when the last of these leases is. Semaphores are never re-entered.
func WithReentry() Option { return func(o *options) { o.reentry = true } }

// WithFair gives each goroutine a place of its own in the line instead of
// passing a lock on inside the process for up to 20 ms. First come first served
// across processes is then exact, if all of them use it.
func WithFair() Option { return func(o *options) { o.fair = true } }

// WithNote sets what other clients see of the holder, in place of user, host and
// process. At most 1 KiB.
func WithNote(s string) Option {
	return func(o *options) {
		if err := checkNote(s); err != nil {
			o.err = cmp.Or(o.err, err)
			return
		}
		o.note = s
	}
}

// WithLogger reports events to l: trouble as warnings, the rest for debugging.
// The default, and that of a nil logger, is to say nothing.
func WithLogger(l *slog.Logger) Option {
	if l == nil {
		return func(*options) {}
	}
	return WithObserver(logObserver{l})
}

// WithObserver adds an observer of events; nil adds none.
func WithObserver(ob Observer) Option {
	if ob == nil {
		return func(*options) {}
	}
	q := newEventQueue(ob) // one goroutine at a time calls ob, for whatever the option is used
	return func(o *options) { o.observers = append(slices.Clip(o.observers), q) }
}

// defaults are the settings of a client that was given none.
func defaults() options { return options{ttl: defaultTTL, note: whoami()} }

func (o *options) refuse(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
}

func (o options) with(opts []Option) options {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// options returns the settings of a lock: mostly the client's own, which never change.
func (c *Client) options(opts []Option) *options {
	if len(opts) == 0 {
		return &c.defaults
	}
	o := c.defaults.with(opts)
	return &o
}
