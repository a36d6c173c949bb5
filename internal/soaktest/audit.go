package soaktest

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// An audit checks that holds of one name never exceed its limit, that tokens grow, and
// that holders are told of an eviction.
type audit struct {
	t testing.TB

	mu      sync.Mutex // guards what follows
	names   map[string]*audited
	evicted map[uint64]time.Time // by the engine's token: when that was answered, or zero without an answer
	counts  map[string]int
	holders map[*pawl.Client]int // how often each has held
}

// audited is the record of one name.
type audited struct {
	holds map[*pawl.Lease]int // the units of each
	token uint64              // the highest of an exclusive hold
	seen  map[uint64]bool     // tokens of the others since then
}

func newAudit(t testing.TB) *audit {
	return &audit{
		t: t, names: map[string]*audited{}, evicted: map[uint64]time.Time{},
		counts: map[string]int{}, holders: map[*pawl.Client]int{},
	}
}

func (a *audit) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[what]++
}

// enter records that l, of client c, holds units of limit of name. An evicted lease does
// not count: its holder may not know yet.
func (a *audit) enter(c *pawl.Client, name string, l *pawl.Lease, units, limit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holders[c]++
	n := a.names[name]
	if n == nil {
		n = &audited{holds: map[*pawl.Lease]int{}, seen: map[uint64]bool{}}
		a.names[name] = n
	}
	if _, evicted := a.evicted[fenceOf(l)]; evicted || l.Err() != nil {
		a.counts["late or evicted before the work"]++
		return
	}
	sum := units
	for other, u := range n.holds {
		if _, evicted := a.evicted[fenceOf(other)]; !evicted && other.Err() == nil {
			sum += u
		}
	}
	if sum > limit {
		a.t.Errorf("%s: %d of %d units are held with token %d", name, sum, limit, l.Token())
	}
	if l.Token() <= n.token || n.seen[l.Token()] {
		a.t.Errorf("%s: token %d after %d", name, l.Token(), n.token)
	}
	if units == limit {
		for token := range n.seen {
			if token >= l.Token() {
				a.t.Errorf("%s: exclusive token %d after %d", name, l.Token(), token)
			}
		}
		n.token = l.Token()
		clear(n.seen)
	} else {
		n.seen[l.Token()] = true
	}
	n.holds[l] = units
	a.counts["holds of "+name[:len(name)-1]]++
}

// fenceOf is the engine's own token, without the count of passes in the process.
func fenceOf(l *pawl.Lease) uint64 { return l.Token() >> 8 }

// evicting records that a hold may end from now on, and reports whether that was recorded
// before. An evicted waiter enters again with the same ID, and its later hold counts.
func (a *audit) evicting(x driver.Entry) (before bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, before = a.evicted[x.Fence]; x.Held && !before {
		a.evicted[x.Fence] = time.Time{}
	}
	return before
}

// evictedNow records that a hold has ended: its holder must be notified within two TTLs. An
// eviction without an answer may never have happened, and requires nothing.
func (a *audit) evictedNow(x driver.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x.Held {
		a.evicted[x.Fence] = time.Now()
		a.counts["evicted holds"]++
	}
}

// notEvicted records that the hold was gone, or had changed.
func (a *audit) notEvicted(x driver.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.evicted, x.Fence)
}

// leave records that the holder of l has stopped.
func (a *audit) leave(name string, l *pawl.Lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.names[name].holds, l)
	if at := a.evicted[fenceOf(l)]; !at.IsZero() && l.Err() == nil && time.Since(at) > 2*TTL {
		a.t.Errorf("%s: evicted %v ago, and not notified", name, time.Since(at))
	}
}

// expectHolds waits until each of the clients has held once more.
func (a *audit) expectHolds(clients []*pawl.Client, limit time.Duration) {
	a.t.Helper()
	a.mu.Lock()
	before := maps.Clone(a.holders)
	a.mu.Unlock()
	begun := time.Now()
	for i, c := range clients {
		for ; ; time.Sleep(10 * time.Millisecond) { // poll: holds are many
			a.mu.Lock()
			more := a.holders[c] > before[c]
			a.mu.Unlock()
			if more {
				break
			}
			if time.Since(begun) > limit {
				a.t.Errorf("client %d holds nothing for %v after the last fault", i, limit)
				break
			}
		}
	}
}

// report logs the counts, and waits until the store has no claims left.
func (a *audit) report(e driver.Engine) {
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		left := 0
		for _, err := range e.List(a.t.Context(), "") {
			if err != nil {
				a.t.Fatal(err)
			}
			left++
		}
		if left == 0 {
			break
		}
		if time.Since(begun) > 3*TTL {
			a.t.Errorf("%d claims are left with all clients closed", left)
			break
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(a.counts)) {
		a.t.Logf("%7d %s", a.counts[what], what)
	}
}
