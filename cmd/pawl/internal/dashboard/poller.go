package dashboard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// The store is listed once a second, but for at most a tenth of the time where that
// takes long; one slow listing among fast ones does not count. Beside that the names
// that somebody looks at are read alone, which is one step each. A listing has failed
// when the store sends nothing for listLimit.
const (
	listInterval = time.Second
	listShare    = 10
	listLimit    = 10 * time.Second
	lookInterval = 500 * time.Millisecond
	lookLimit    = 2 * time.Second
	lookMost     = 50 // names
	lookAtOnce   = 8
)

// A poller reads the store and publishes what it saw. Only the goroutine of run
// changes it; listings run beside it and are handed over when they are complete.
type poller struct {
	store   Store
	explain func(error) string
	hub     *hub
	history *history
	state   state            // the one that was published last
	took    time.Duration    // by the last listing that worked
	looked  map[string]*line // what was read alone since the listing under way began
}

// A listing is the result of reading everything.
type listing struct {
	from, to time.Time
	byName   map[string]*line
	err      error
}

func newPoller(s Store, explain func(error) string, h *hub, hist *history) *poller {
	return &poller{store: s, explain: explain, hub: h, history: hist}
}

// run lists until ctx ends, and calls first with the result of the first listing.
func (p *poller) run(ctx context.Context, first func(error)) {
	results := make(chan listing)
	var group sync.WaitGroup
	defer group.Wait()
	next, looks := time.NewTimer(0), time.NewTicker(lookInterval)
	defer next.Stop()
	defer looks.Stop()
	for {
		select {
		case <-next.C:
			p.looked = map[string]*line{}
			known := p.state.snap
			group.Go(func() { // ends with ctx
				select {
				case results <- p.list(ctx, known):
				case <-ctx.Done():
				}
			})
		case r := <-results:
			p.take(r)
			if first != nil {
				first(r.err)
				first = nil
			}
			next.Reset(time.Until(r.from.Add(p.state.interval)))
		case <-looks.C:
			p.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// pause returns the time from the beginning of one listing to that of the next.
func pause(took time.Duration) time.Duration { return max(listInterval, listShare*took) }

// list reads everything. known is what was seen before, or nil.
func (p *poller) list(ctx context.Context, known *snapshot) listing {
	r := listing{from: time.Now()}
	r.byName, r.err = p.readAll(ctx, known)
	r.to = time.Now()
	return r
}

// readAll lists the store.
func (p *poller) readAll(ctx context.Context, known *snapshot) (map[string]*line, error) {
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(listLimit, cancel)
	defer idle.Stop()
	all := map[string]*line{}
	var entries []driver.Entry
	var read time.Time
	end := func() {
		if len(entries) > 0 {
			name := entries[0].Name
			all[name] = newLine(name, entries, read, known.line(name))
		}
	}
	for e, err := range p.store.List(call, "") {
		if err != nil && call.Err() == nil {
			return nil, err
		}
		if call.Err() != nil {
			break
		}
		if len(entries) == 0 || entries[0].Name != e.Name { // claims on one name follow each other
			end()
			entries, read = nil, time.Now()
			idle.Reset(listLimit)
		}
		entries = append(entries, e)
	}
	if call.Err() != nil { // a listing may also be cut short without an error
		return nil, fmt.Errorf("%w: no answer for %v", pawl.ErrUnreachable, listLimit)
	}
	end()
	return all, nil
}

// take publishes a listing, or that the store is away.
func (p *poller) take(r listing) {
	next := p.state
	next.took, next.interval = r.to.Sub(r.from), listInterval
	next.listings++
	if r.err != nil {
		next.failures++
		if next.away.IsZero() {
			next.away = r.to
			p.history.awayAt(p.lastSeen(r.from))
		}
		next.problem = p.explain(r.err)
		p.publish(next)
		return
	}
	next.interval, p.took = pause(min(next.took, p.took)), next.took
	p.keepLooked(r)
	if !next.away.IsZero() {
		p.history.backAt(r.to)
	}
	if next.snap != nil {
		p.history.compareAll(next.snap.byName, r.byName, r.to)
	}
	next.snap, next.away, next.problem = newSnapshot(r.to, r.byName), time.Time{}, ""
	p.publish(next)
}

// keepLooked puts into a listing the lines that were read alone since it began. When
// the listing itself read them is unknown: a store may read everything first and hand
// it over later, and then a hold that has ended would come back, also in the history.
// A line that the listing read later after all is read again soon.
func (p *poller) keepLooked(r listing) {
	for name, l := range p.looked {
		if r.byName[name] = l; len(l.entries) == 0 {
			delete(r.byName, name)
		}
	}
}

// lastSeen returns when the store was seen last, or otherwise if it never was.
func (p *poller) lastSeen(otherwise time.Time) time.Time {
	if p.state.snap == nil {
		return otherwise
	}
	return p.state.snap.at
}

func (p *poller) publish(next state) {
	p.state = next
	p.hub.publish(&next)
}

// look reads the names that somebody looks at, and publishes a state if something has
// changed. Errors are left to the next listing.
func (p *poller) look(ctx context.Context) {
	names := p.hub.watched(lookMost)
	if len(names) == 0 || p.state.snap == nil || !p.state.away.IsZero() {
		return
	}
	changed := map[string]*line{}
	for _, l := range p.readSome(ctx, names) {
		p.looked[l.name] = l
		before := p.state.snap.line(l.name)
		if before == nil && len(l.entries) == 0 || l.same(before) {
			continue
		}
		changed[l.name] = l
		p.history.compare(before, l, l.read)
	}
	if len(changed) == 0 || ctx.Err() != nil {
		return
	}
	byName := maps.Clone(p.state.snap.byName)
	for name, l := range changed {
		if byName[name] = l; len(l.entries) == 0 {
			delete(byName, name)
		}
	}
	next := p.state
	next.snap = newSnapshot(next.snap.at, byName)
	p.publish(next)
}

// readSome reads single lines, several at a time. Those that fail are missing.
func (p *poller) readSome(ctx context.Context, names []string) (lines []*line) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	work := make(chan string)
	var mu sync.Mutex // guards lines
	var group sync.WaitGroup
	for range min(lookAtOnce, len(names)) {
		group.Go(func() { // ends when work is closed
			for name := range work {
				entries, err := p.store.Line(ctx, name)
				if err != nil {
					continue
				}
				l := newLine(name, entries, time.Now(), p.state.snap.line(name))
				mu.Lock()
				lines = append(lines, l)
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	group.Wait()
	return lines
}

// Refused reports whether an error of the first listing will not go away by itself:
// the store's URL is wrong, or the store refuses this user.
func Refused(err error) bool {
	return errors.Is(err, pawl.ErrDenied) || errors.Is(err, pawl.ErrInvalid) || errors.Is(err, pawl.ErrUnsupported)
}
