package drivertest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// manyCases keep as many claims at once as every engine must bear.
var manyCases = []lawCase{
	{name: "many claims, held and waiting, outlive their TTL", law: 15, run: manyKept,
		why: "A holds 64 names; A and B wait with 64 claims each in one line, behind C; all beat at the same time for two TTLs: nothing is gone, and the line is as it was."},
}

const (
	manyEach  = 64 // claims of each kind
	atOnce    = 8  // that are entered at the same time
	manyBeats = 8  // in two TTLs
)

// A manyClaims is a set of sessions that beat for all of their claims at the same time.
type manyClaims struct {
	f        *fixture
	ttl      time.Duration // the shortest
	sessions []*session
	live     [][]driver.Claim // of each session
	sent     time.Time        // when the last beats were sent that were all answered
	fault    string           // what was wrong, unless the machine was late
}

func manyKept(f *fixture) {
	withLongerTTLs(f, func(ttl time.Duration) bool {
		m := &manyClaims{f: f, ttl: ttl, live: make([][]driver.Claim, 3)}
		for range m.live {
			s := f.openTTL(ttl)
			defer s.close()
			m.sessions, m.ttl = append(m.sessions, s), min(m.ttl, s.TTL())
		}
		m.sent = m.sessions[0].opened
		name := f.name + "/" + newID()
		named := func(name string) driver.Claim { return withName(f.claim(), name) }
		ok := m.enter(2, true, named(name+"/wanted"))
		for i := 0; i < manyEach && ok; i += atOnce {
			var held, first, second []driver.Claim
			for k := range atOnce {
				held = append(held, named(fmt.Sprintf("%s/%03d", name, i+k)))
				first, second = append(first, named(name+"/wanted")), append(second, named(name+"/wanted"))
			}
			ok = m.enter(0, true, held...)
			if f.can.Queue {
				ok = ok && m.enter(0, false, first...) && m.enter(1, false, second...)
			}
		}
		if !ok {
			return m.judge()
		}
		line := f.lineOf(name + "/wanted")
		for range manyBeats {
			time.Sleep(m.ttl / 4)
			if !m.beat() {
				return m.judge()
			}
		}
		now := f.lineOf(name + "/wanted")
		if !slices.EqualFunc(line, now, func(a, b driver.Entry) bool { return a.ID == b.ID && a.Held == b.Held }) {
			m.fault = fmt.Sprintf("two TTLs later the line is\n%s\nand was\n%s", showEntries(now), showEntries(line))
		}
		held := 0
		for _, e := range f.list(name) {
			if e.Held {
				held++
			}
		}
		if m.fault == "" && held != manyEach+1 {
			m.fault = fmt.Sprintf("%d of %d holds are listed", held, manyEach+1)
		}
		return m.judge()
	})
}

// judge fails the case if something was wrong although beats were in time. It reports
// whether there is a verdict.
func (m *manyClaims) judge() bool {
	m.f.Helper()
	if m.late() {
		return false
	}
	if m.fault != "" {
		m.f.Fatal(m.fault)
	}
	return true
}

// late reports whether claims may have expired, because the machine stalled.
func (m *manyClaims) late() bool { return time.Since(m.sent) > m.ttl*3/4 }

// enter enters claims in a session at the same time, and beats if it is time. It reports
// whether the case goes on.
func (m *manyClaims) enter(in int, held bool, cs ...driver.Claim) bool {
	var calls sync.WaitGroup
	faults := make([]string, len(cs))
	for i, c := range cs {
		calls.Go(func() {
			if st, err := m.sessions[in].tryEnter(m.f.ctx, c); err != nil || st.Held != held {
				faults[i] = fmt.Sprintf("Enter: %+v, %v; held should be %v", st, err, held)
			}
		})
	}
	calls.Wait()
	m.live[in] = append(m.live[in], cs...)
	if i := slices.IndexFunc(faults, func(s string) bool { return s != "" }); i >= 0 {
		m.fault = faults[i]
		return false
	}
	return time.Since(m.sent) < m.ttl/4 || m.beat()
}

// beat beats for all claims of all sessions, and as the core does again for those without
// an answer. It reports whether all were answered in time, and none is gone.
func (m *manyClaims) beat() bool {
	sent := time.Now()
	faults := make([]string, len(m.sessions))
	var calls sync.WaitGroup
	for i, s := range m.sessions {
		calls.Go(func() { faults[i] = m.beatOne(s, m.live[i]) })
	}
	calls.Wait()
	m.fault = faults[0] + faults[1] + faults[2]
	if m.fault != "" || m.late() {
		return false
	}
	m.sent = sent
	return true
}

func (m *manyClaims) beatOne(s *session, live []driver.Claim) (fault string) {
	for len(live) > 0 && !m.late() {
		out, err := s.tryBeat(m.f.ctx, live...)
		var unanswered []driver.Claim
		for i, st := range out {
			switch {
			case st.Gone:
				return fmt.Sprintf("of %d claims that were beaten in time, number %d is gone\n", len(out), i)
			case st.Valid <= 0:
				unanswered = append(unanswered, live[i])
			}
		}
		if err != nil && len(unanswered) == 0 {
			return fmt.Sprintf("Beat: %v\n", err)
		}
		live = unanswered
	}
	return ""
}
