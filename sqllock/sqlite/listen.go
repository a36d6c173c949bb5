package sqlite

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
)

const (
	// How often a process looks for the commits of others that do not tell it of its turns.
	pollFirst = time.Millisecond
	pollLast  = 5 * time.Millisecond

	// How often a process whose claim is the first that waits looks for dead ones in its
	// way, and how often any other does. If a hundred looked every few milliseconds, and
	// each of them at each change, they would take the processors from the one whose turn
	// it is.
	firstLooks = 50 * time.Millisecond
	otherLooks = time.Second

	// How often a process looks whether all others tell it of its turns, and how often
	// when some do not.
	tellersKept   = 10 * time.Second
	tellersSought = time.Second
)

// A listener wakes the waiters of a process: when others tell it that their turn has come;
// every now and then, in case they were killed before they could; and by polling the file
// for commits while a process has it open that does not tell, or a watcher wants to
// know of every departure.
type listener struct {
	store    *store
	liveness *liveness
	waiters  sqlline.Waiters

	came, first chan struct{} // what was heard; each has room for one

	seen     int64 // the version of the file at which the waiters were last woken
	pause    time.Duration
	repaired time.Time // when dead processes were last looked for
	due      time.Time // when they will be

	tells bool      // all others tell
	until time.Time // for how long that is taken to be so
}

func (x *listener) run(ctx context.Context) {
	x.came, x.first = make(chan struct{}, 1), make(chan struct{}, 1)
	x.seen, x.pause, x.repaired = -1, pollFirst, time.Now()
	var heard sync.WaitGroup
	defer heard.Wait()
	if t := x.liveness.turns; t != nil {
		heard.Go(func() {
			t.receive(ctx, func(what byte) {
				if what == turnCame {
					driverkit.Signal(x.came)
				} else {
					driverkit.Signal(x.first)
				}
			})
		})
	}
	for x.waiters.WaitForAny(ctx) == nil {
		activity := x.waiters.Activity()
		// The version is read first: a commit in between is seen twice, and not missed.
		v, err := x.store.version(ctx)
		if err == nil && v != x.seen && x.waiters.WakeChanged(ctx) == nil {
			x.seen, x.pause = v, pollFirst
		}
		polls := x.polls()
		x.repair(ctx, polls)
		if !x.wait(ctx, polls, activity) {
			return
		}
	}
}

// polls reports whether there is a process or a watcher for which the file is to be
// polled.
func (x *listener) polls() bool {
	now := time.Now()
	if now.After(x.until) {
		keep := tellersSought
		if x.tells = x.liveness.allTell(); x.tells {
			keep = tellersKept
		}
		x.until = now.Add(keep/2 + rand.N(keep))
	}
	return !x.tells || x.waiters.AnyWatcher()
}

// repair looks for dead processes in the way of this one's claims, if it is time to. If
// none of these is the first of its line, the processes whose claims are do so.
func (x *listener) repair(ctx context.Context, polls bool) {
	now := time.Now()
	if now.Before(x.due) {
		return
	}
	next := firstLooks
	if !polls {
		if first, err := x.waiters.First(ctx); err == nil && !first {
			next = otherLooks/2 + rand.N(otherLooks/2)
		}
	}
	x.due = now.Add(next)
	if next == firstLooks || now.Sub(x.repaired) >= otherLooks/2 {
		x.repaired = now
		_ = x.waiters.Repair(ctx) // repeated soon
	}
}

// wait returns when it is time to read the file again; false: ctx has ended.
func (x *listener) wait(ctx context.Context, polls bool, activity <-chan struct{}) bool {
	if polls {
		pause := x.pause
		x.pause = min(x.pause*5/4, pollLast)
		return driverkit.Pause(ctx, pause)
	}
	t := time.NewTimer(time.Until(x.due))
	defer t.Stop()
	for {
		select {
		case <-x.came:
			return true
		case <-t.C:
			return true
		case <-ctx.Done():
			return false
		case <-x.first:
		case <-activity: // a waiter more, whose claim may be the first
			activity = nil
		}
		if soon := time.Now().Add(firstLooks); soon.Before(x.due) {
			x.due = soon
			t.Reset(firstLooks)
		}
	}
}
