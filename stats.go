package pawl

// Stats are the numbers of a client, for a metrics exporter. Counters count since New;
// gauges are how things stand. They add up: Waiting is Waited + HandedOver + GaveUp +
// WaitingNow, and Acquired + HandedOver is Released + Lost + what is held.
type Stats struct {
	// Counters, of the events of the same names.
	Waiting, Acquired, HandedOver, GaveUp, Refused, InDoubt, Renewed, Released, Lost uint64

	Waited     uint64 // of Acquired, those that had waited; all of HandedOver had
	Unobserved uint64 // events that an observer did not get, because it was stuck or panicked

	// Gauges.
	WaitingNow int // acquires that wait for a lock
	Held       int // locks held, those between two holders of the process included
	Sessions   int // driver sessions, each with a keeper and its beats
	Departures int // claims that the client gave up and may still have to leave in the store
}

// Stats returns the client's numbers. It asks nothing of the store. The gauges are read
// one after the other, so they may not be of the same moment.
func (c *Client) Stats() Stats {
	of := c.counters.of
	st := Stats{
		Waiting: of(Waiting), Acquired: of(Acquired), HandedOver: of(HandedOver), GaveUp: of(GaveUp), Refused: of(Refused),
		InDoubt: of(InDoubt), Renewed: of(Renewed), Released: of(Released), Lost: of(Lost),
		Waited: c.counters.waited.Load(), Unobserved: c.counters.unobserved.Load(),
		WaitingNow: c.counters.waiting(),
	}
	for _, s := range c.allSessions() {
		s.mu.Lock()
		st.Sessions++
		st.Held += s.set.Held()
		st.Departures += len(s.departures.all)
		s.mu.Unlock()
	}
	return st
}
