package history

import (
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"
)

// promised is everything that a store can promise.
var promised = Promise{Order: true, Fencing: true, Kept: true}

const (
	ms  = Time(time.Millisecond)
	all = 1 << 30
)

// hold returns a sound attempt of one client that waits until granted, holds and releases.
func hold(client int, called, granted, released Time, token uint64) Attempt {
	return Attempt{
		Client: client, Name: "n", Need: 1, Limit: 1, Fair: true,
		Called: called, Queued: called + 1, Returned: granted, Result: Held, Token: token,
		Alive: released - 1, Unlock: released, Unlocked: released + 1, End: Released,
	}
}

// sound returns a history of three clients that keep all rules.
func sound() *History {
	h := &History{TTL: 2 * time.Second, End: 7000 * ms}
	h.Attempts = []Attempt{
		hold(1, 1*ms, 2*ms, 10*ms, 1),
		hold(2, 3*ms, 11*ms, 20*ms, 2),
		hold(3, 4*ms, 21*ms, 30*ms, 3),
		{Client: 4, Name: "n", Need: 1, Limit: 1, Try: true, Called: 22 * ms, Returned: 23 * ms, Result: Busy},
		hold(1, 35*ms, 36*ms, 40*ms, 4),
	}
	h.Attempts[0].Writes = []Write{{1, 3 * ms, 4 * ms, true}}
	h.Attempts[1].Writes = []Write{{2, 12 * ms, 13 * ms, true}}
	return h
}

func TestASoundHistoryKeepsAllRules(t *testing.T) {
	r := Check(sound(), promised)
	for _, v := range r.Verdicts {
		if v.Checked == 0 && v.Rule != LossInTime && v.Rule != Renewed {
			t.Errorf("%s: nothing was checked", v.Rule)
		}
		for _, f := range v.Violations {
			t.Errorf("%s: %s", v.Rule, f.Text)
		}
	}
}

func TestEachRuleIsBroken(t *testing.T) {
	for _, test := range []struct {
		what  string
		rules []Rule
		spoil func(h *History)
	}{
		{"two hold", []Rule{Exclusion, Linearizable}, func(h *History) { h.Attempts[1].Returned = 8 * ms }},
		{"a writer beside a reader", []Rule{Exclusion, Linearizable}, func(h *History) {
			h.Attempts[0].Limit, h.Attempts[1].Limit = all, all
			h.Attempts[1].Need, h.Attempts[1].Returned = all, 8*ms
			h.Attempts = h.Attempts[:2]
		}},
		{"one permit too many", []Rule{Exclusion, Linearizable}, func(h *History) {
			for i := range h.Attempts[:3] {
				h.Attempts[i].Limit, h.Attempts[i].Returned, h.Attempts[i].Writes = 2, 5*ms+Time(i), nil
			}
			h.Attempts = h.Attempts[:3]
		}},
		{"a token twice", []Rule{UniqueTokens, Linearizable}, func(h *History) { h.Attempts[1].Token = 1 }},
		{"no token", []Rule{UniqueTokens, TokenOrder, StaleWrites, Linearizable}, func(h *History) { h.Attempts[1].Token = 0 }},
		{"a token goes back", []Rule{TokenOrder, Linearizable}, func(h *History) {
			h.Attempts[4].Token = 1
			h.Attempts[0].Token = 4
			h.Attempts[0].Writes = nil
			h.Attempts[1].Token = 5
			h.Attempts[2].Token = 6
		}},
		{"a reader's token is below that of one that had gone", []Rule{TokenOrder}, func(h *History) {
			h.Attempts = h.Attempts[:2]
			h.Attempts[0].Limit, h.Attempts[1].Limit = all, all
			h.Attempts[0].Token, h.Attempts[1].Called, h.Attempts[1].Queued = 3, 10*ms, 0
			h.Attempts[0].Writes, h.Attempts[1].Writes = nil, nil
		}},
		{"told too late", []Rule{LossInTime}, func(h *History) {
			a := &h.Attempts[0]
			a.End, a.Unlock, a.Unlocked, a.Alive, a.Told = Lost, 0, 0, 9*ms, 62*ms
		}},
		{"said held too long", []Rule{LossInTime, Exclusion, Linearizable}, func(h *History) {
			a := &h.Attempts[0]
			a.End, a.Unlock, a.Unlocked, a.Alive, a.Told = Lost, 0, 0, 12*ms, 13*ms
		}},
		{"a stale write is accepted", []Rule{StaleWrites}, func(h *History) {
			h.Attempts[0].Writes = append(h.Attempts[0].Writes, Write{3, 14 * ms, 15 * ms, true})
		}},
		{"a holder's write is refused", []Rule{StaleWrites}, func(h *History) { h.Attempts[1].Writes[0].Accepted = false }},
		{"overtaken", []Rule{ArrivalOrder}, func(h *History) {
			h.Attempts[2].Called, h.Attempts[2].Queued = 3*ms+10, 3*ms+11
			h.Attempts[1].Called, h.Attempts[1].Queued = 5*ms, 5*ms+1
		}},
		{"overtaken until it gave up", []Rule{ArrivalOrder}, func(h *History) {
			a := &h.Attempts[1]
			*a = Attempt{Client: 2, Name: "n", Need: 1, Limit: 1, Fair: true, Called: 3 * ms, Queued: 3*ms + 1, Cancelled: 25 * ms, Returned: 26 * ms, Result: Failed}
		}},
		{"a waiter is forgotten", []Rule{Progress}, func(h *History) {
			h.Attempts = append(h.Attempts, hold(5, 41*ms, 9000*ms, 9001*ms, 9))
			h.End = 9002 * ms
		}},
		{"a waiter is forgotten for good", []Rule{Progress}, func(h *History) {
			h.Attempts = append(h.Attempts, Attempt{Client: 5, Name: "n", Need: 1, Limit: 1, Called: 41 * ms, Queued: 42 * ms})
			h.End = 20_000 * ms
		}},
		{"waiters are forgotten since a fault", []Rule{Progress}, func(h *History) {
			for client := 5; client < 7; client++ {
				h.Faults = append(h.Faults, Fault{client, "cut", 50 * ms, 500 * ms})
				h.Attempts = append(h.Attempts, Attempt{Client: client, Name: "n", Need: 1, Limit: 1, Called: 41 * ms, Queued: 42 * ms, Cancelled: 12_000 * ms, Returned: 12_001 * ms, Result: Failed})
			}
			h.End = 12_002 * ms
		}},
		{"a client has no answers since a fault", []Rule{Progress}, func(h *History) {
			h.Faults = append(h.Faults, Fault{5, "cut", 50 * ms, 500 * ms})
			h.Attempts = append(h.Attempts, Attempt{Client: 5, Name: "n", Need: 1, Limit: 1, Called: 41 * ms, Cancelled: 12_000 * ms, Returned: 12_001 * ms, Result: Failed})
			h.End = 12_002 * ms
		}},
		{"a client fails at once, for ever", []Rule{Progress}, func(h *History) { failFast(h); h.Attempts = append(h.Attempts, hold(2, 9000*ms, 9001*ms, 9002*ms, 9)) }},
		{"a lease that was held for a moment is forgotten", []Rule{Kept}, func(h *History) {
			a := &h.Attempts[0]
			a.End, a.Early = Lost, true
		}},
		{"a place in line is forgotten", []Rule{Kept}, func(h *History) { h.Attempts[1].Queued, h.Attempts[1].Forgotten = 6*ms, 6*ms }},
		{"a lease is not renewed", []Rule{Renewed}, func(h *History) {
			h.Attempts = append(h.Attempts, hold(5, 41*ms, 42*ms, 1900*ms, 9))
			a := &h.Attempts[5]
			a.End, a.Told = Lost, 1901*ms
		}},
		{"told too late, and Unlock says that it was held", []Rule{LossInTime}, func(h *History) { h.Attempts[0].Told = 62 * ms }},
		{"refused on a free name", []Rule{TrueRefusals}, func(h *History) { h.Attempts[3].Called, h.Attempts[3].Returned = 31*ms, 32*ms }},
		{"something is left", []Rule{NothingLeft}, func(h *History) { h.Left = []string{"n: client 1"} }},
	} {
		t.Run(test.what, func(t *testing.T) {
			h := sound()
			test.spoil(h)
			r := Check(h, promised)
			var broken []Rule
			for _, v := range r.Verdicts {
				if !v.Holds() {
					broken = append(broken, v.Rule)
				}
			}
			for _, rule := range test.rules {
				if !slices.Contains(broken, rule) {
					t.Errorf("%q is not reported; reported are %q", rule, broken)
				}
			}
			for _, rule := range broken {
				if !slices.Contains(test.rules, rule) {
					t.Errorf("%q is reported too: %s", rule, r.Gravest().Text)
				}
			}
		})
	}
}

// failFast adds a client that fails at once, again and again.
func failFast(h *History) {
	for at := 41 * ms; at < 10_000*ms; at += 20 * ms {
		h.Attempts = append(h.Attempts, Attempt{Client: 5, Name: "n", Need: 1, Limit: 1, Called: at, Returned: at + 1, Result: Failed, Err: "refused"})
	}
	h.End = 10_001 * ms
}

// One that lasts is shown, not the first consequence of it that was noticed.
func TestTheGravestViolationIsShown(t *testing.T) {
	h := sound()
	h.Attempts[3].Called, h.Attempts[3].Returned = 31*ms, 32*ms // refused on a free name
	h.Attempts = append(h.Attempts, hold(2, 41*ms, 42*ms, 50*ms, 5), hold(3, 43*ms, 48*ms, 60*ms, 6))
	v := Check(h, promised).Gravest()
	if v == nil || v.Rule != Exclusion || v.At != 48*ms {
		t.Errorf("%+v", v)
	}
}

func TestALossThatWasNeverToldIsNotToldAtTheBeginning(t *testing.T) {
	h := sound()
	a := &h.Attempts[0]
	a.End, a.Alive, a.Told = Lost, 12*ms, 0
	for _, v := range Check(h, promised).Verdicts {
		if v.Rule == LossInTime && (len(v.Violations) != 1 || !strings.Contains(v.Violations[0].Text, "and never told of the loss; client 2")) {
			t.Errorf("%+v", v.Violations)
		}
	}
}

// Nobody can be told anything while its process is stopped, so a loss that a process finds
// when it goes on is not late.
func TestALossFoundAfterAPauseIsInTime(t *testing.T) {
	h := sound()
	a := &h.Attempts[0]
	a.End, a.Unlock, a.Unlocked, a.Alive, a.Told = Lost, 0, 0, 9*ms, 62*ms
	h.Faults = []Fault{{1, Pause, 9 * ms, 12*ms - 1}}
	if r := Check(h, promised); !r.Holds() {
		t.Error(r.Gravest().Text)
	}
}

// A client that was cut off may have lost its place.
func TestADisturbedWaiterMayBeOvertaken(t *testing.T) {
	h := sound()
	h.Attempts[2].Called, h.Attempts[2].Queued = 3*ms+10, 3*ms+11
	h.Attempts[1].Called, h.Attempts[1].Queued = 5*ms, 5*ms+1
	h.Faults = []Fault{{3, "cut", 4 * ms, 5 * ms}}
	if r := Check(h, promised); !r.Holds() {
		t.Error(r.Gravest().Text)
	}
}

// The rules do not judge what the record does not show.
func TestASoundHistoryWithGapsKeepsAllRules(t *testing.T) {
	const s = 1000 * ms
	for what, change := range map[string]func(h *History){
		"the answer to a write came too late for its writer": func(h *History) {
			h.Attempts[0].Writes[0] = Write{Seq: 3, At: 3 * ms}
		},
		"a waiter was cancelled after it had failed": func(h *History) {
			a := &h.Attempts[1]
			*a = Attempt{Client: 2, Name: "n", Need: 1, Limit: 1, Fair: true, Called: 3 * ms, Queued: 3*ms + 1, Returned: 20 * ms, Cancelled: 22 * ms, Result: Failed}
		},
		"nobody is served, and a client fails at once": failFast,
		"a client that was cut off fails at once, and is served again": func(h *History) {
			failFast(h)
			h.Faults = []Fault{{5, "cut", 50 * ms, 4 * s}}
			h.Attempts = append(h.Attempts, hold(2, 9000*ms, 9001*ms, 9002*ms, 9))
		},
		"the store forgot a client that was cut off": func(h *History) {
			a := &h.Attempts[0]
			a.End, a.Early = Lost, true
			h.Faults = []Fault{{1, "cut", 3 * ms, 4 * ms}}
		},
		"a client that was cut off could not renew its lease": func(h *History) {
			h.Attempts = append(h.Attempts, hold(5, 41*ms, 42*ms, 1900*ms, 9))
			h.Attempts[5].End = Lost
			h.Faults = []Fault{{5, "cut", 50 * ms, 60 * ms}}
		},
		"a client could not renew its lease while the store was away": func(h *History) {
			h.Attempts = append(h.Attempts, hold(5, 41*ms, 42*ms, 1900*ms, 9))
			h.Attempts[5].End = Lost
			h.Faults = []Fault{{AllClients, "store away", 50 * ms, 1800 * ms}}
		},
		"a client that hardly ran could not renew its lease": func(h *History) {
			h.Attempts = []Attempt{hold(1, 1*ms, 2*ms, 3*ms, 1), hold(5, 5*s, 5*s+1, 6900*ms, 9)}
			h.Attempts[1].End = Lost
			for at := 3 * s; at < 7*s; at += 800 * ms {
				h.Faults = append(h.Faults, Fault{5, Stall, at, at + 600*ms})
			}
		},
		"the store forgot a client that hardly ran": func(h *History) {
			h.Attempts = []Attempt{hold(1, 7*s, 7*s+1, 7*s+2, 1)}
			h.Attempts[0].End, h.Attempts[0].Early = Lost, true
			for at := 3 * s; at < 7*s; at += 800 * ms {
				h.Faults = append(h.Faults, Fault{1, Stall, at, at + 600*ms})
			}
		},
		"a client was killed that had no answer yet": func(h *History) {
			h.Attempts = append(h.Attempts, Attempt{Client: 5, Name: "n", Need: 1, Limit: 1, Called: 41 * ms})
			h.Faults = []Fault{{5, Kill, 50 * ms, 51 * ms}}
			h.End = 20 * s
		},
		"a client was told to end, and killed half a minute later": func(h *History) {
			h.Attempts = append(h.Attempts, Attempt{Client: 5, Name: "n", Need: 1, Limit: 1, Called: 41 * ms, Queued: 42 * ms})
			h.Faults = []Fault{{5, Kill, 2 * s, 32 * s}}
			h.End = 32 * s
		},
		"a holder was told of its loss, and killed in Unlock": func(h *History) {
			a := &h.Attempts[0]
			a.Alive, a.Told, a.Unlock, a.Unlocked, a.End = 9*ms, 10*ms, 15*ms, 0, Open
			h.Faults = []Fault{{1, Kill, 15 * ms, 16 * ms}}
		},
		"the store kept the claim of a killed holder for three TTL": func(h *History) {
			h.Attempts = []Attempt{hold(1, 1*ms, 2*ms, 3*ms, 1), {Client: 4, Name: "n", Need: 1, Limit: 1, Try: true, Called: 5900 * ms, Returned: 5901 * ms, Result: Busy}}
			a := &h.Attempts[0]
			a.Unlock, a.Unlocked, a.End = 0, 0, Open
			h.Faults = []Fault{{1, Kill, 4 * ms, 5 * ms}}
			h.Expiry = 3 * h.TTL
		},
		"a holder was killed long after its last record": func(h *History) {
			h.Attempts = []Attempt{hold(1, 1*ms, 2*ms, 3*ms, 1), hold(2, 4*ms, 13*s, 13*s+2, 2)}
			a := &h.Attempts[0]
			a.Unlock, a.Unlocked, a.End = 0, 0, Open
			h.Faults = []Fault{{1, Kill, 10*s + 500*ms, 10*s + 501*ms}}
			h.End = 14 * s
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := sound()
			change(h)
			if r := Check(h, promised); !r.Holds() {
				t.Error(r.Gravest().Rule, r.Gravest().Text)
			}
		})
	}
}

// Two goroutines that tell of the same stall do not make it twice as long.
func TestAStallCountsOnce(t *testing.T) {
	h := sound()
	h.Faults = []Fault{{1, Stall, 10 * ms, 20 * ms}, {1, Stall, 12 * ms, 22 * ms}, {1, Stall, 13 * ms, 15 * ms}}
	if ran := newDisturbances(h).ran(1, 5*ms, 30*ms); ran != 13*time.Millisecond {
		t.Errorf("it ran for %v", ran)
	}
}

// TestALongHistoryIsCheckedSoon also shows that random sound histories keep all rules.
func TestALongHistoryIsCheckedSoon(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	h := &History{TTL: 2 * time.Second}
	now := 1 * ms
	var ended Time
	for n := range 30_000 {
		called := now - Time(rnd.Int63n(int64(5*ms)))*Time(rnd.Intn(2))
		called = max(called, 1)
		granted := max(now, ended) + Time(rnd.Int63n(1000))
		a := hold(n%9, called, granted, granted+Time(rnd.Int63n(int64(ms)))+2, uint64(n)+1)
		a.Fair = false
		ended, now = a.Unlocked, a.Unlocked
		h.Attempts = append(h.Attempts, a)
	}
	h.End = now
	begun := time.Now()
	if r := Check(h, promised); !r.Holds() {
		t.Error(r.Gravest())
	}
	t.Logf("%d attempts in %v", len(h.Attempts), time.Since(begun))
	h.Attempts[20_000].Token--
	if r := Check(h, promised); r.Holds() {
		t.Error("a repeated token among many is not found")
	}
}

// What a run could not show is not called kept: it was applied to nothing.
func TestWhatCannotFailIsNotChecked(t *testing.T) {
	h := sound()
	h.End = Time(Idle(h.TTL))
	h.LeftUnknown = true
	for _, v := range Check(h, promised).Verdicts {
		if (v.Rule == Progress || v.Rule == NothingLeft) && v.Checked > 0 {
			t.Errorf("%s was checked on %d %s", v.Rule, v.Checked, v.Of)
		}
	}
}
