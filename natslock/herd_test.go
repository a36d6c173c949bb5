package natslock

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// A line is one value for all, yet a turn concerns two clients: no other one is told of
// it, reads or writes.
func TestATurnCostsTheSameHoweverManyWait(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t).Addr()
	few, many := turnCost(t, addr, 4), turnCost(t, addr, 16)
	t.Logf("messages for a turn: %.2f with 4 clients, %.2f with 16", few, many)
	if many > 1.25*few || many > 10 { // of these one is a notice that comes with a write that is refused
		t.Errorf("a turn costs %.2f messages with 16 clients, and %.2f with 4", many, few)
	}
}

// turnCost returns how many messages a number of clients, each with a connection of its
// own, send for a turn. Each gives the name back and at once stands last in the line.
func turnCost(t *testing.T, addr string, number int) float64 {
	clients, claims := make([]*countedClient, number), make([]driver.Claim, number)
	last := make([]driver.Standing, number)
	for i := range clients {
		clients[i], claims[i] = newCountedClient(t, addr, fmt.Sprint("turns", number)), newClaim("name", 1, 1)
		if last[i] = clients[i].enter(claims[i]); last[i].Held != (i == 0) {
			t.Fatalf("client %d: %+v", i, last[i])
		}
	}
	for _, n := range clients {
		n.take()
	}
	const rounds = 5
	for range rounds {
		for i, n := range clients {
			n.leave(claims[i])
			next := (i + 1) % number
			clients[next].turn(claims[next], last[next])
			claims[i] = newClaim("name", 1, 1)
			if last[i] = n.enter(claims[i]); last[i].Held || last[i].Ahead != number-1 {
				t.Fatalf("behind %d others: %+v", number-1, last[i])
			}
		}
	}
	total := 0
	for _, n := range clients {
		_, messages := n.take()
		total += messages
	}
	return float64(total) / float64(rounds*number)
}

func TestAFreeNameCostsOneWriteAndItsReleaseOne(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t).Addr()
	for _, size := range [][2]int{{1, 1}, {1, driver.All}, {2, 5}, {driver.All, driver.All}} {
		n := newCountedClient(t, addr, "free")
		var left time.Time
		for i, what := range []string{"a name that was never used", "a name that was used before", "a name once more"} {
			c := newClaim(fmt.Sprint(size), size[0], size[1])
			n.take()
			if st := n.enter(c); !st.Held {
				t.Fatalf("%+v", st)
			}
			questions := 0
			if i == 0 || time.Since(left) > time.Second/2 { // the key may have no message: are the settings as they were?
				questions = 1
			}
			if i == 0 || questions == 0 {
				n.expect("taking "+what, map[string]int{"Put": 1}, questions)
			}
			n.take()
			left = time.Now()
			n.leave(c)
			n.expect("giving back "+what, map[string]int{"Put": 1, "Notify": 1}, 0) // the notice is for watchers, and not waited for
		}
	}
}

// The holder has read the line when the other one began to wait, so that it gives the
// name back in one write, and the notice has all that the other one needs.
func TestATurnCostsOneWriteAndNoRead(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t).Addr()
	a, b := newCountedClient(t, addr, "turn"), newCountedClient(t, addr, "turn")
	want, ideal := map[string]int{"Put": 1, "Notify": 2}, 0
	const turns = 20
	for i := range turns {
		name := fmt.Sprint(i)
		ca, cb := newClaim(name, 1, 1), newClaim(name, 1, 1)
		a.enter(ca)
		a.take()
		st := b.enter(cb)
		b.take()
		a.awaitRead()
		a.take()
		a.leave(ca)
		if calls, _ := a.take(); maps.Equal(calls, want) {
			ideal++
		} else if calls["Put"] > 2 || calls["Get"] > 1 { // what was read is known a moment later
			t.Errorf("giving back a name that another waits for costs %v", calls)
		}
		b.turn(cb, st)
		b.expect("a turn", map[string]int{}, 0)
		b.leave(cb)
	}
	if ideal < turns/2 {
		t.Errorf("%d of %d names were given back with %v", ideal, turns, want)
	}
}

// Who is let in is sent the line, however long it is, and so gives the name back with one write.
func TestATurnInALongLineCostsOneWriteAndNoRead(t *testing.T) {
	t.Parallel()
	addr := testserver.NATS(t).Addr()
	a, b := newCountedClient(t, addr, "long"), newCountedClient(t, addr, "long")
	ca, cb := newClaim("name", 1, 1), newClaim("name", 1, 1)
	a.enter(ca)
	st := b.enter(cb)
	for range 200 {
		a.enter(newClaim("name", 1, 1))
	}
	b.take()
	a.leave(ca)
	b.turn(cb, st)
	b.expect("a turn", map[string]int{}, 0)
	b.leave(cb)
	if calls, _ := b.take(); calls["Put"] != 1 || calls["Get"] != 0 {
		t.Errorf("giving back a name that 200 others wait for costs %v", calls)
	}
}
