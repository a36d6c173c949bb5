package pawl

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// A Kind says what happened to a lock.
type Kind int

// The kinds of events.
const (
	Waiting    Kind = iota + 1 // not held at once: waiting in line; Took is the call so far
	Acquired                   // granted by the engine; Took is the wait
	HandedOver                 // granted inside the process, by the holder before; Took is the wait
	InDoubt                    // the store did not confirm the hold; Err says why. The hold goes on until its deadline
	Renewed                    // confirmed; Took is the round trip
	Released                   // given back; Took is the hold, Err is ErrClosed if Close did it
	Lost                       // ended by itself; Took is the hold, Err says why
	GaveUp                     // the wait ended without the lock; Took is the wait, Err says why
	Refused                    // not held at once, and no wait: a try, or the store failed; Took is the call, Err says why
	kinds
)

// String returns the kind in words.
func (k Kind) String() string {
	return word(int(k), "", "waiting", "acquired", "handed over", "in doubt", "renewed", "released", "lost", "gave up", "refused")
}

// word returns the text of a constant.
func word(i int, words ...string) string {
	if i < 0 || i >= len(words) {
		return "unknown"
	}
	return words[i]
}

// A Mode says how the holders of a lock exclude each other.
type Mode uint8

// The modes of a lock.
const (
	Exclusive Mode = iota // one holder at a time
	Shared                // readers beside each other
	Counted               // permits of a semaphore
)

// String returns the mode in lower case.
func (m Mode) String() string {
	return word(int(m), "exclusive", "shared", "permits")
}

// A Cause says why a hold was lost.
type Cause uint8

// The causes of a loss.
const (
	NotRenewed   Cause = iota + 1 // the store did not confirm it in time, or the process stood still
	SessionEnded                  // the store has ended the client's session
	Broken                        // the store no longer knows it: it expired there, or somebody broke it
	MaxHold                       // WithMaxHold, as asked
	FixedTTL                      // WithoutRenewal, as asked
)

// String returns the cause in words.
func (c Cause) String() string {
	return word(int(c), "none", "not renewed", "session ended", "broken", "maximum hold", "fixed TTL")
}

// An Event is something that happened to one lock. Events come in pairs, in this order:
//
//   - Waiting, then Acquired (with Waited), HandedOver or GaveUp
//   - Acquired or HandedOver, then Released or Lost
//
// An acquire that neither waited nor got the lock is Refused; one that was refused
// before the store was asked, as for an invalid name, has no event. Leases that are
// nested by WithReentry have none of their own either.
type Event struct {
	Kind    Kind
	Name    string
	ID      string // of the claim; the one that is granted may have another than the one that waited
	Mode    Mode
	Permits int    // of a semaphore; 0 in other modes
	Store   string // the kind of store, as driver.Features has it
	Token   uint64 // 0 without a hold
	Waited  bool   // Acquired or HandedOver after a Waiting
	Took    time.Duration
	Cause   Cause // of Lost
	Err     error

	// Time is when it happened; zero for a DirectObserver, which is called then.
	Time time.Time

	// Context is that of the call that acquires, for its values, such as a trace; nil
	// for events of a hold.
	Context context.Context
}

// An Observer is told of events as they happen. Each WithObserver has a goroutine of its
// own for it, which calls Observe for one event after the other. An observer may call
// the client, and cannot harm a lease:
//
//   - It never delays a renewal, the end of a lost lease's context, or the store's being
//     told of an Unlock.
//   - A call of the client returns once its events were observed, or after 100 ms; no
//     further call waits for an observer that is stuck, until it goes on.
//   - Of a stuck observer's events at most 4096 are kept; Stats counts the rest.
//   - A panic is recovered, counted by Stats and, the first time, logged by slog.Default.
//     So is runtime.Goexit, as t.FailNow calls it: another goroutine goes on.
type Observer interface {
	Observe(Event)
}

// A DirectObserver is called by the goroutine on which the event happens, also by the
// one that renews leases, for a fraction of the cost. So it must never block, must not
// call the client and not end the goroutine: it is for observers that only count.
type DirectObserver interface {
	Observer
	Direct() // only marks the type
}

// ObserverFunc makes an Observer of a function.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }

// logObserver writes events to a slog.Logger.
type logObserver struct{ log *slog.Logger }

func (o logObserver) level(e Event) slog.Level {
	if e.Kind == InDoubt || e.Kind == Lost {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// wants spares an event that would not be logged the way through the queue. A logger
// that panics gets the event there.
func (o logObserver) wants(e Event) (wanted bool) {
	defer func() {
		if recover() != nil {
			wanted = true
		}
	}()
	return o.log.Enabled(context.Background(), o.level(e))
}

func (o logObserver) Observe(e Event) {
	attrs := []slog.Attr{slog.String("name", e.Name), slog.String("id", e.ID), slog.String("mode", e.Mode.String())}
	if e.Permits != 0 {
		attrs = append(attrs, slog.Int("permits", e.Permits))
	}
	if e.Token != 0 {
		attrs = append(attrs, slog.Uint64("token", e.Token))
	}
	if e.Took != 0 {
		attrs = append(attrs, slog.Duration("took", e.Took))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	ctx := e.Context // for handlers that log the trace
	if ctx == nil {
		ctx = context.Background()
	}
	o.log.LogAttrs(ctx, o.level(e), "lock "+e.Kind.String(), attrs...)
}

// counters are the events of a client by kind.
type counters struct {
	events     [kinds]atomic.Uint64
	waited     atomic.Uint64 // how many of Acquired had waited; all of HandedOver had
	unobserved atomic.Uint64
}

func (n *counters) count(k Kind)     { n.events[k].Add(1) }
func (n *counters) of(k Kind) uint64 { return n.events[k].Load() }

// waiting returns how many acquires wait. The ends are read first, so that an acquire
// which comes meanwhile does not make it negative.
func (n *counters) waiting() int {
	over := n.of(HandedOver) + n.of(GaveUp) + n.waited.Load()
	return int(n.of(Waiting) - over)
}
