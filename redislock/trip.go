package redislock

import "sync"

// worthMerging is how many calls of a kind there must be: merging itself costs.
const worthMerging = 4

// A Rider is one call that an adapter sends together with others, to one node.
type Rider struct {
	Back chan struct{} // receives when there is an answer

	words  []string
	kind   kind
	answer Answer
	walk   bool
}

var riders = sync.Pool{New: func() any { return &Rider{Back: make(chan struct{}, 1)} }}

// NewRider returns a rider for a command of the engine's.
func NewRider(words []string) *Rider {
	r := riders.Get().(*Rider)
	r.words, r.kind = words, kindOf(words)
	return r
}

// Alight returns the answer of a rider that is back, and ends it. It is not ok if
// the call was not sent, and is to be sent another way.
func (r *Rider) Alight() (a Answer, ok bool) {
	a, ok = r.answer, !r.walk
	r.words, r.answer, r.walk = nil, Answer{}, false
	riders.Put(r)
	return a, ok
}

// Walk tells a rider that it was not sent.
func (r *Rider) Walk() {
	r.walk = true
	r.Back <- struct{}{}
}

// A Trip takes riders to the server and brings their answers back. Where several of
// them take or give back locks, one command does it for all.
type Trip struct {
	// Send sends commands in one piece and answers for each. It reports whether
	// the way is lost: nothing more is sent then.
	Send func(cmds [][]string, out []Answer) (lost bool)

	lost          bool
	parcels, next []parcel
	cmds          [][]string
	out           []Answer
}

// A parcel is one command: of one rider, or merged of several of a kind.
type parcel struct {
	kind   kind // "" if it is not merged
	whole  bool // with the script
	riders []*Rider
}

// Make makes the trip. It goes again for whom a merged command did nothing or was
// refused, and where the server did not know its script.
func (t *Trip) Make(load []*Rider) (lost bool) {
	t.pack(load)
	for t.lost = false; len(t.parcels) > 0 && !t.lost; {
		t.cmds, t.out = t.cmds[:0], t.out[:0]
		for _, p := range t.parcels {
			t.cmds, t.out = append(t.cmds, p.command()), append(t.out, Answer{})
		}
		t.lost = t.Send(t.cmds, t.out)
		for i, p := range t.parcels {
			t.deliver(p, t.out[i])
		}
		t.parcels, t.next = t.next, t.parcels[:0]
	}
	for _, p := range t.parcels {
		for _, r := range p.riders {
			r.Walk()
		}
	}
	t.parcels = t.parcels[:0]
	return t.lost
}

// pack makes parcels of the load.
func (t *Trip) pack(load []*Rider) {
	t.parcels = t.parcels[:0]
	for _, r := range load {
		if at := t.find(r.kind); at >= 0 {
			t.parcels[at].riders = append(t.parcels[at].riders, r)
		} else {
			t.parcels = append(t.parcels, parcel{kind: r.kind, riders: []*Rider{r}})
		}
	}
	merged := t.parcels
	for i, p := range merged {
		if len(p.riders) >= worthMerging {
			continue
		}
		t.parcels[i].kind, t.parcels[i].riders = "", p.riders[:1]
		for _, r := range p.riders[1:] {
			t.parcels = append(t.parcels, parcel{riders: []*Rider{r}})
		}
	}
}

func (t *Trip) find(k kind) int {
	if k == "" {
		return -1
	}
	for i := range t.parcels {
		if t.parcels[i].kind == k {
			return i
		}
	}
	return -1
}

func (p parcel) command() []string {
	if p.kind == "" {
		return p.riders[0].words
	}
	all := make([][]string, len(p.riders))
	for i, r := range p.riders {
		all[i] = r.words
	}
	return merge(p.kind, all, p.whole)
}

// deliver gives the riders of a parcel their answers, or makes parcels for the
// next round of them.
func (t *Trip) deliver(p parcel, a Answer) {
	if p.kind != "" && code(a.Err) == "NOSCRIPT" {
		t.next = append(t.next, parcel{p.kind, true, p.riders})
		return
	}
	if p.kind != "" && code(a.Err) != "" {
		// The server refuses a command for any one of its keys. Where the merged script
		// had begun, an Enter that follows knows its own hold; a Leave had done nothing.
		for _, r := range p.riders {
			t.next = append(t.next, parcel{riders: []*Rider{r}})
		}
		return
	}
	for i, r := range p.riders {
		r.answer = a
		if p.kind != "" && a.Err == nil {
			var served bool
			if r.answer.Reply, served = split(a.Reply, i); !served {
				t.next = append(t.next, parcel{riders: []*Rider{r}})
				continue
			}
		}
		r.Back <- struct{}{}
	}
}
