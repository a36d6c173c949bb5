package testserver

import (
	"fmt"
	"strconv"
)

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	slot, _ := must(c.t, c.Nodes[0].Addr(), "CLUSTER", "KEYSLOT", key).(int64)
	return int(slot)
}

// Owner returns the node that serves a slot, according to the nodes.
func (c *Cluster) Owner(slot int) *Server {
	c.t.Helper()
	ranges, _ := must(c.t, c.Nodes[0].Addr(), "CLUSTER", "SLOTS").([]any)
	for _, entry := range ranges {
		// First slot, last slot, then the nodes: address, port, id.
		fields := entry.([]any)
		if int64(slot) < fields[0].(int64) || int64(slot) > fields[1].(int64) {
			continue
		}
		id := fields[2].([]any)[2]
		for _, s := range c.Nodes {
			if c.id[s] == id {
				return s
			}
		}
	}
	c.t.Fatalf("nobody serves slot %d", slot)
	return nil
}

// A Move moves one slot to another node, in the three steps of an operator, so that
// a test can act in between. All its methods must be called from the test's own
// goroutine.
type Move struct {
	c        *Cluster
	slot     int
	from, to *Server
}

// BeginMove opens a slot: its owner answers ASK for keys of the slot that it does
// not have, and still serves those it has.
func (c *Cluster) BeginMove(slot int, to *Server) *Move {
	c.t.Helper()
	m := &Move{c: c, slot: slot, from: c.Owner(slot), to: to}
	m.set(to, "IMPORTING", c.id[m.from])
	m.set(m.from, "MIGRATING", c.id[to])
	return m
}

// Keys moves the keys that exist now and returns them. From then on they are
// answered with ASK too.
func (m *Move) Keys() (keys []string) {
	m.c.t.Helper()
	return m.Some(1000)
}

// Some moves at most n of the keys that exist now, as an operator's tool does, and
// returns them.
func (m *Move) Some(n int) (keys []string) {
	m.c.t.Helper()
	answer, _ := must(m.c.t, m.from.Addr(), "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(m.slot), strconv.Itoa(n)).([]any)
	for _, key := range answer {
		keys = append(keys, fmt.Sprint(key))
	}
	if len(keys) > 0 {
		must(m.c.t, m.from.Addr(), append([]string{
			"MIGRATE", "127.0.0.1", strconv.Itoa(m.to.Port()), "", "0", "5000", "KEYS",
		}, keys...)...)
	}
	return keys
}

// Finish moves the remaining keys and closes the slot: its old owner answers MOVED
// from then on.
func (m *Move) Finish() {
	m.c.t.Helper()
	for len(m.Keys()) > 0 {
		continue // more may have been created meanwhile
	}
	// The new owner first: if this ended here, a slot without an owner would be
	// lost.
	m.set(m.to, "NODE", m.c.id[m.to])
	for _, s := range m.c.Nodes {
		if s != m.to {
			m.set(s, "NODE", m.c.id[m.to])
		}
	}
}

// Move moves a slot and its keys to another node.
func (c *Cluster) Move(slot int, to *Server) {
	c.t.Helper()
	c.BeginMove(slot, to).Finish()
}

func (m *Move) set(s *Server, state, id string) {
	m.c.t.Helper()
	must(m.c.t, s.Addr(), "CLUSTER", "SETSLOT", strconv.Itoa(m.slot), state, id)
}
