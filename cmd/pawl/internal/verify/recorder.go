package verify

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/pawl-go/pawl/fence"
	"github.com/pawl-go/pawl/internal/history"
)

// A recorder makes one history of the records of all workers.
type recorder struct {
	kinds map[string]kind
	ticks bool // the store ends sessions at ticks, which may be as long as the TTL

	mu       sync.Mutex // guards what follows
	history  history.History
	attempts map[attemptID]int // index in history
	register register
	counts   Counts
	lasts    time.Duration // the longest first deadline of a lease
	granted  history.Time  // the last time
	failed   history.Time  // the last time, by itself
	lastErr  string
}

// attemptID identifies an attempt among those of all workers.
type attemptID struct{ client, id int }

// Counts are the numbers of a run.
type Counts struct {
	Operations  int            `json:"operations"` // acquires that returned, releases, writes
	Grants      int            `json:"grants"`
	Refused     int            `json:"refused"`   // tries and waits that ended because somebody else held
	Cancelled   int            `json:"cancelled"` // waits that were given up
	Failed      int            `json:"failed"`    // acquires that the store did not answer
	Losses      int            `json:"losses"`
	Unknown     int            `json:"unknown"` // releases without an answer, and holds of killed workers
	Writes      int            `json:"writes"`
	StaleWrites int            `json:"stale_writes"` // that were refused
	Workers     int            `json:"workers"`      // processes that were started
	Faults      map[string]int `json:"faults"`
	FaultsInAll int            `json:"faults_in_all"`
}

func newRecorder(kinds []kind) *recorder {
	r := &recorder{kinds: map[string]kind{}, attempts: map[attemptID]int{}}
	for _, k := range kinds {
		r.kinds[k.Name] = k
	}
	r.register.marks = map[string]fence.Marks{}
	r.counts.Faults = map[string]int{}
	return r
}

// add takes in a record of a client. It returns true if that waits for the register.
func (r *recorder) add(client int, in record) (wrote bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.StallTo != 0 {
		r.history.Faults = append(r.history.Faults, history.Fault{Client: client, Kind: history.Stall, From: in.StallFrom, To: in.StallTo})
	}
	if in.ID == 0 {
		return false
	}
	at := attemptID{client, in.ID}
	if in.Kind != "" {
		k := r.kinds[in.Kind]
		r.attempts[at] = len(r.history.Attempts)
		r.history.Attempts = append(r.history.Attempts, history.Attempt{
			Client: client, Lane: in.Lane, Name: k.Name, Need: in.Need, Limit: k.Limit, Fair: k.Fair, Try: in.Try, Called: in.Called,
		})
		return false
	}
	i, known := r.attempts[at]
	if !known {
		return false
	}
	a := &r.history.Attempts[i]
	r.take(a, in)
	if a.Unlocked != 0 || a.Returned != 0 && a.Result != history.Held {
		delete(r.attempts, at)
	}
	return in.Write
}

// take adds a record to its attempt.
func (r *recorder) take(a *history.Attempt, in record) {
	set := func(t *history.Time, v history.Time) {
		if v != 0 {
			*t = v
		}
	}
	if a.Queued == 0 || a.Fair { // of one that came into the line again, the last time counts
		set(&a.Queued, in.Queued)
	}
	set(&a.Forgotten, in.Forgotten)
	set(&a.Alive, in.Alive)
	a.Early = a.Early || in.Early
	set(&a.Told, in.Told)
	set(&a.Unlock, in.Unlock)
	if in.Cancelled != 0 && a.Returned == 0 {
		a.Cancelled = in.Cancelled
	}
	if in.Returned != 0 {
		a.Returned, a.Result, a.Err, a.Token = in.Returned, in.Result, in.Err, in.Token
		r.lasts = max(r.lasts, in.Lasts)
		r.counts.returned(a)
		if a.Result == history.Held {
			r.granted = max(r.granted, a.Returned)
		}
		if a.Err != "" && a.Cancelled == 0 {
			r.lastErr, r.failed = a.Err, max(r.failed, a.Returned)
		}
	}
	if in.Write {
		w := r.register.write(a.Name, in.Token, in.At)
		a.Writes = append(a.Writes, w)
		r.counts.wrote(w)
	}
	if n := len(a.Writes); in.Wrote != 0 && n > 0 {
		a.Writes[n-1].Answered = in.Wrote
	}
	if in.Unlocked != 0 {
		a.Unlocked, a.End = in.Unlocked, in.End
		r.counts.ended(in.End)
	}
}

// attempted counts the attempts that have begun.
func (r *recorder) attempted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.history.Attempts)
}

func (c *Counts) returned(a *history.Attempt) {
	c.Operations++
	switch {
	case a.Result == history.Held:
		c.Grants++
	case a.Result == history.Busy:
		c.Refused++
	case a.Cancelled != 0:
		c.Cancelled++
	default:
		c.Failed++
	}
}

func (c *Counts) wrote(w history.Write) {
	c.Operations++
	c.Writes++
	if !w.Accepted {
		c.StaleWrites++
	}
}

func (c *Counts) ended(e history.End) {
	c.Operations++
	switch e {
	case history.Lost:
		c.Losses++
	case history.Unknown:
		c.Unknown++
	}
}

// fault records a fault.
func (r *recorder) fault(f history.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Faults = append(r.history.Faults, f)
	r.counts.Faults[f.Kind]++
	r.counts.FaultsInAll++
}

// killed records that a worker has ended that was not to end, since a moment at which it was
// to be judged no longer. It is no fault that was brought about.
func (r *recorder) killed(client int, since history.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Faults = append(r.history.Faults, history.Fault{Client: client, Kind: kill, From: since, To: now()})
}

// finish returns the history, with times from the beginning of the run.
func (r *recorder) finish(begun history.Time, ttl time.Duration, left []string) *history.History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.history
	h.TTL, h.Left = r.lifetimeLocked(ttl), left
	if r.ticks {
		h.Expiry = 3 * h.TTL // a session has at least two ticks, and ends at the tick after them
	}
	for i := range h.Attempts {
		a := &h.Attempts[i]
		if a.Result == history.Held && a.End == history.Open {
			r.counts.Unknown++
		}
		for _, t := range []*history.Time{&a.Called, &a.Queued, &a.Forgotten, &a.Cancelled, &a.Returned, &a.Alive, &a.Told, &a.Unlock, &a.Unlocked} {
			if *t != 0 {
				*t -= begun - 1
				h.End = max(h.End, *t)
			}
		}
		for k := range a.Writes {
			a.Writes[k].At -= begun - 1
			if a.Writes[k].Answered != 0 {
				a.Writes[k].Answered -= begun - 1
			}
		}
	}
	for i := range h.Faults {
		h.Faults[i].From -= begun - 1
		h.Faults[i].To -= begun - 1
	}
	return h
}

// lifetime returns the TTL, or what the store has made of it.
func (r *recorder) lifetime(ttl time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lifetimeLocked(ttl)
}

func (r *recorder) lifetimeLocked(ttl time.Duration) time.Duration {
	return max(ttl, r.lasts*10/9) // a lease ends a tenth before
}

// started counts a worker.
func (r *recorder) started() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.Workers++
}

// enough returns an error if the run has shown nothing, because the store did not serve.
func (r *recorder) enough(ttl time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := time.Duration(r.failed - r.granted); r.counts.Grants > 0 && since > history.Idle(r.lifetimeLocked(ttl)) {
		return fmt.Errorf("the store granted nothing in the last %v of the run, and failed, the last time: %s", since.Round(time.Millisecond), r.lastErr)
	}
	if c := r.counts; c.Grants == 0 || c.Failed > c.Grants {
		return fmt.Errorf("the store granted %d locks and failed %d times, the last time: %s", c.Grants, c.Failed, r.lastErr)
	}
	return nil
}

// soFar returns the counts.
func (r *recorder) soFar() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts
	c.Faults = maps.Clone(c.Faults)
	return c
}
