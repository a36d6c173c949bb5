package kvline_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
)

// An earlierClaim is a claim as an earlier version of this package knows it: it lives for its
// TTL after its Beat.
type earlierClaim struct {
	ID      string        `json:"id"`
	Try     int           `json:"try"`
	Need    int           `json:"need"`
	Limit   int           `json:"limit"`
	Queue   bool          `json:"queue,omitempty"`
	Note    string        `json:"note,omitempty"`
	Session string        `json:"session"`
	Engine  string        `json:"engine"`
	TTL     time.Duration `json:"ttl"`
	Held    bool          `json:"held,omitempty"`
	Token   uint64        `json:"token,omitempty"`
	Since   int64         `json:"since"`
	Beat    int64         `json:"beat,omitempty"`
}

// earlier does what a client of that version does with a line: it reads it, ends what has
// expired for it, grants the first, and writes it back, for as long as it thinks right.
func earlier(t *testing.T, m *memory, change func(line []earlierClaim) []earlierClaim) []earlierClaim {
	t.Helper()
	v, err := m.Get(t.Context(), "line.name")
	if err != nil {
		t.Fatal(err)
	}
	var stored struct {
		Line []earlierClaim `json:"pawl"`
	}
	if v.Data != nil && json.Unmarshal(v.Data, &stored) != nil {
		t.Fatalf("an earlier version cannot read %s", v.Data)
	}
	var line []earlierClaim
	for _, c := range stored.Line {
		if c.Token == 0 {
			c.Token = v.Revision
		}
		if c.Beat == 0 {
			c.Beat = v.Time.UnixNano()
		}
		if time.Unix(0, c.Beat).Add(c.TTL).After(time.Now()) {
			line = append(line, c)
		}
	}
	if stored.Line = change(line); len(stored.Line) > 0 {
		stored.Line[0].Held = true
	}
	longest := time.Duration(0)
	for _, c := range stored.Line {
		longest = max(longest, c.TTL)
	}
	v.Data = nil
	if len(stored.Line) > 0 {
		if v.Data, err = json.Marshal(stored); err != nil {
			t.Fatal(err)
		}
	}
	if v.Revision, err = m.Put(t.Context(), "line.name", v, 2*longest+2*time.Second); err != nil {
		t.Fatal(err)
	}
	return stored.Line
}

func earlierEnter(id string) func([]earlierClaim) []earlierClaim {
	return func(line []earlierClaim) []earlierClaim {
		return append(line, earlierClaim{ID: id, Try: 1, Need: 1, Limit: 1, Queue: true, Session: "earlier", Engine: "EARLIER", TTL: ttl, Since: time.Now().UnixNano()})
	}
}

// earlierBeat prolongs the claims of the earlier version, as its beats do.
func earlierBeat(line []earlierClaim) []earlierClaim {
	for i := range line {
		if line[i].Session == "earlier" {
			line[i].Beat = 0
		}
	}
	return line
}

// It holds, and clients of both versions wait, for longer than any claim lives in the line.
func TestAHoldIsKeptWhereAnEarlierVersionWritesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		holder, waiter := open(t, m, "one"), open(t, m, "two")
		token := enter(t, holder, queued("holder")).Token
		earlier(t, m, earlierEnter("earlier"))
		enter(t, waiter, queued("waiter"))
		for begun := time.Now(); time.Since(begun) < 3*time.Hour; time.Sleep(ttl / 3) {
			if st := beat(t, holder, queued("holder"))[0]; !st.Held || st.Token != token || st.Valid != ttl {
				t.Fatalf("after %v: %+v", time.Since(begun), st)
			}
			if st := beat(t, waiter, queued("waiter"))[0]; st.Held || st.Gone {
				t.Fatalf("the waiter after %v: %+v", time.Since(begun), st)
			}
			if line := earlier(t, m, earlierBeat); len(line) != 3 || line[0].ID != "holder" || line[1].ID != "earlier" {
				t.Fatalf("after %v an earlier version reads %+v", time.Since(begun), line)
			}
		}
		if err := holder.Leave(t.Context(), queued("holder")); err != nil {
			t.Fatal(err)
		}
		if line := earlier(t, m, earlierBeat); len(line) != 2 || line[0].ID != "earlier" {
			t.Errorf("then an earlier version reads %+v", line)
		}
	})
}

// A client of an earlier version holds and is beaten, then dies.
func TestAHoldOfAnEarlierVersionLivesByItsOwnTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		earlier(t, m, earlierEnter("earlier"))
		s := open(t, m, "one")
		at := awaited(t, s, queued("claim"), enter(t, s, queued("claim")), 10*ttl)
		for range 9 {
			time.Sleep(ttl / 3)
			if st := beat(t, s, queued("claim"))[0]; st.Held {
				t.Fatalf("%+v beside a hold of an earlier version", st)
			}
			earlier(t, m, earlierBeat)
		}
		died := time.Now()
		for range 6 {
			time.Sleep(ttl / 3)
			beat(t, s, queued("claim"))
		}
		if took := (<-at).Sub(died); took < ttl || took > ttl+time.Second {
			t.Errorf("the next one holds %v after the death of a claim with a TTL of %v", took, ttl)
		}
	})
}

// Only clients of an earlier version are left, and these do not know sessions.
func TestADeadClaimEndsAlsoForAnEarlierVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := open(t, m, "one")
		enter(t, s, queued("dead"))
		died := time.Now()
		line := earlier(t, m, earlierEnter("earlier"))
		for len(line) > 1 && time.Since(died) < time.Hour {
			time.Sleep(ttl / 3)
			line = earlier(t, m, earlierBeat)
		}
		if took := time.Since(died); len(line) != 1 || took > 20*time.Minute {
			t.Errorf("after %v the line is %+v", took, line)
		}
		admin := kvline.New("memory", m, driver.Volatile)
		defer admin.Close()
		if all, err := admin.Line(t.Context(), "name"); err != nil || len(all) != 1 || !all[0].Held {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
