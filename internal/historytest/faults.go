package historytest

import (
	"time"

	"github.com/pawl-go/pawl/internal/history"
)

// fault brings a fault to one of the clients, and the next one a while later.
func (s *store) fault() {
	if len(s.h.Attempts) >= s.most {
		return
	}
	kind := [...]string{history.Pause, "cut", history.Kill}[len(s.h.Faults)%3]
	at := s.random.IntN(len(s.alive))
	c := s.alive[at]
	length := TTL + s.some(TTL/2)
	s.h.Faults = append(s.h.Faults, history.Fault{Client: c.number, Kind: kind, From: s.moment(0), To: s.moment(length)})
	if kind == history.Kill {
		c.gone = true
		s.alive = append(s.alive[:at], s.alive[at+1:]...)
		s.startClient(s.clients, length)
		s.clients++
	}
	// A client that is cut off only waits, too: what it does meanwhile is not invented.
	c.paused = s.now + length
	for i := range s.lines {
		for _, a := range append(append([]*attempt{}, s.lines[i].holds...), s.lines[i].waits...) {
			if a.client == c {
				s.strand(a, kind, length)
			}
		}
	}
	s.at(length+s.some(TTL), s.fault)
}

// strand ends what a client has in the store when a fault begins: the store keeps it for
// the TTL.
func (s *store) strand(a *attempt, kind string, length time.Duration) {
	s.at(TTL, func() { s.release(a) })
	if a.over {
		return
	}
	a.over = true
	r := s.record(a)
	told := s.moment(length)
	if kind == "cut" { // its own clock says so
		told = s.moment(TTL * 9 / 10)
	}
	switch {
	case kind == history.Kill:
	case r.Result == history.Held:
		r.End, r.Told = history.Lost, told
		if kind == "cut" {
			r.Alive = told - history.Time(TTL/20)
		}
		s.of(a.client, length+s.some(time.Millisecond), func() { s.call(a.client, a.lane) })
	default:
		s.of(a.client, length, func() { s.end(a, history.Failed, "the session was lost") })
	}
}
