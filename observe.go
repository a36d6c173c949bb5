package pawl

import (
	"context"
	"log/slog"
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
	Released                   // given back; Took is the hold
	Lost                       // ended by itself; Took is the hold, Err says why
)

var kindNames = [...]string{"", "waiting", "acquired", "handed over", "in doubt", "renewed", "released", "lost"}

// String returns the kind in words.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// An Event is something that happened to one lock.
type Event struct {
	Kind  Kind
	Name  string
	ID    string // of the claim
	Token uint64 // 0 while waiting
	Took  time.Duration
	Err   error
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
	attrs := []slog.Attr{slog.String("name", e.Name), slog.String("id", e.ID)}
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
