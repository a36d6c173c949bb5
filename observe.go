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
	Waiting    Kind = iota + 1 // not held at once: waiting in line
	Acquired                   // granted by the engine; Took is the wait
	HandedOver                 // granted inside the process, by the holder before; Took is the wait
	InDoubt                    // the store did not confirm the hold; Err says why. The hold goes on until its deadline
	Renewed                    // confirmed; Took is the round trip
	Released                   // given back; Took is the hold, Err is ErrClosed if Close did it
	Lost                       // ended by itself; Took is the hold, Err says why
	GaveUp                     // the wait ended without the lock; Took is the wait, Err says why
	kinds
)

// String returns the kind in words.
func (k Kind) String() string {
	return word(int(k), "", "waiting", "acquired", "handed over", "in doubt", "renewed", "released", "lost", "gave up")
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
	return word(int(m), "exclusive", "shared", "counted")
}

// An Event is something that happened to one lock. Events come in pairs: a Waiting is
// followed by Acquired, HandedOver or GaveUp, and an Acquired or HandedOver by Released
// or Lost. Leases that are nested by WithReentry have no events of their own.
type Event struct {
	Kind    Kind
	Name    string
	ID      string // of the claim; the one that is granted may have another than the one that waited
	Mode    Mode
	Permits int    // of a semaphore; 0 in other modes
	Token   uint64 // 0 while waiting
	Took    time.Duration
	Err     error
}

// An Observer is told of events as they happen, by the goroutine they happen on:
// it must be quick and must not call the client.
type Observer interface {
	Observe(Event)
}

// ObserverFunc makes an Observer of a function.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }

type observers []Observer

func (os observers) Observe(e Event) {
	for _, o := range os {
		o.Observe(e)
	}
}

// logObserver writes events to a slog.Logger.
type logObserver struct{ log *slog.Logger }

func (o logObserver) Observe(e Event) {
	level := slog.LevelDebug
	if e.Kind == InDoubt || e.Kind == Lost {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !o.log.Enabled(ctx, level) {
		return
	}
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
	o.log.LogAttrs(ctx, level, "lock "+e.Kind.String(), attrs...)
}

// counters are the events of a client by kind.
type counters struct {
	events [kinds]atomic.Uint64
	waited atomic.Uint64 // how many of Acquired had waited; all of HandedOver had
}

func (n *counters) count(k Kind)     { n.events[k].Add(1) }
func (n *counters) of(k Kind) uint64 { return n.events[k].Load() }

// waiting returns how many acquires wait. The ends are read first, so that an acquire
// which comes meanwhile does not make it negative.
func (n *counters) waiting() int {
	over := n.of(HandedOver) + n.of(GaveUp) + n.waited.Load()
	return int(n.of(Waiting) - over)
}
