package redisclient

import "sync"

// minMerge is the number of calls from which merging them is cheaper than sending each.
const minMerge = 4

// A PendingCall is a call that waits to be sent, together with others, to one node.
type PendingCall struct {
	Done chan struct{} // receives when the call has its answer, or will not be sent

	call   Call
	answer Answer
	unsent bool
}

var pendingCalls = sync.Pool{New: func() any { return &PendingCall{Done: make(chan struct{}, 1)} }}

// NewPendingCall returns a pending call. A caller that stops waiting for Done leaves it
// to the batch.
func NewPendingCall(c Call) *PendingCall {
	p := pendingCalls.Get().(*PendingCall)
	p.call = c
	return p
}

// Result returns the answer of a call that is done, and frees it. If sent is false,
// the call was not sent and has to be sent another way.
func (p *PendingCall) Result() (a Answer, sent bool) {
	a, sent = p.answer, !p.unsent
	p.call, p.answer, p.unsent = Call{}, Answer{}, false
	pendingCalls.Put(p)
	return a, sent
}

// Unsent ends the call without sending it.
func (p *PendingCall) Unsent() {
	p.unsent = true
	p.Done <- struct{}{}
}

// A Batch sends pending calls and gives each its answer. Calls with the same [Merge]
// are sent as one. It is used by one goroutine.
type Batch struct {
	// Send sends calls in one packet and answers each. It reports whether the
	// connection is lost, so that nothing more can be sent.
	Send func(calls []Call, out []Answer) (lost bool)

	requests, resend []request
	calls            []Call
	out              []Answer
}

// A request is what is sent for one pending call, or for several merged ones.
type request struct {
	merge    *Merge // nil: there is one call, sent as it is
	sendText bool
	calls    []*PendingCall
}

// Run sends the calls. Calls that a merged script skipped, or that were refused
// together, are resent one by one. It reports whether the connection is lost.
func (b *Batch) Run(calls []*PendingCall) (lost bool) {
	b.collect(calls)
	for len(b.requests) > 0 && !lost {
		b.calls, b.out = b.calls[:0], b.out[:0]
		for _, r := range b.requests {
			b.calls, b.out = append(b.calls, r.encode()), append(b.out, Answer{})
		}
		lost = b.Send(b.calls, b.out)
		for i, r := range b.requests {
			b.answer(r, b.out[i])
		}
		b.requests, b.resend = b.resend, b.requests[:0]
	}
	for _, r := range b.requests {
		for _, p := range r.calls {
			p.Unsent()
		}
	}
	clear(b.calls)
	clear(b.out)
	b.requests = b.requests[:0]
	return lost
}

// collect makes one request of all calls with the same merge, if they are enough, and
// one of each other call.
func (b *Batch) collect(calls []*PendingCall) {
	b.requests = b.requests[:0]
	for _, p := range calls {
		if at := b.find(p.call.Merge); at >= 0 {
			b.requests[at].calls = append(b.requests[at].calls, p)
		} else {
			b.requests = append(b.requests, request{merge: p.call.Merge, calls: []*PendingCall{p}})
		}
	}
	for i, r := range b.requests {
		if len(r.calls) >= minMerge {
			continue
		}
		b.requests[i].merge, b.requests[i].calls = nil, r.calls[:1]
		for _, p := range r.calls[1:] {
			b.requests = append(b.requests, request{calls: []*PendingCall{p}})
		}
	}
}

func (b *Batch) find(m *Merge) int {
	if m == nil {
		return -1
	}
	for i := range b.requests {
		if b.requests[i].merge == m {
			return i
		}
	}
	return -1
}

func (r request) encode() Call {
	if r.merge == nil {
		return r.calls[0].call
	}
	all := make([]*Call, len(r.calls))
	for i, p := range r.calls {
		all[i] = &p.call
	}
	return r.merge.call(all, r.sendText)
}

// answer gives the calls of a request their answers, or makes requests of those that
// must be resent.
func (b *Batch) answer(r request, a Answer) {
	merged := r.merge != nil
	switch code := Code(a.Err); {
	case merged && code == "NOSCRIPT":
		b.resend = append(b.resend, request{r.merge, true, r.calls})
		return
	case merged && code != "":
		// The server refuses a command because of any one of its keys. If the script
		// had begun to take names, the resent call recognises its own hold; a script
		// that gives back names changes nothing before its last step.
		for _, p := range r.calls {
			b.resendAlone(p)
		}
		return
	}
	for i, p := range r.calls {
		p.answer = a
		if merged && a.Err == nil {
			var served bool
			if p.answer.Reply, served = element(a.Reply, i); !served {
				b.resendAlone(p)
				continue
			}
		}
		p.Done <- struct{}{}
	}
}

func (b *Batch) resendAlone(p *PendingCall) {
	b.resend = append(b.resend, request{calls: []*PendingCall{p}})
}

// element returns the i-th element of the reply to a merged script, and whether the
// script served that call.
func element(r Reply, i int) (one Reply, served bool) {
	if i >= len(r.Array) {
		return Reply{}, false
	}
	one = r.Array[i]
	return one, one.Text != "" || one.Int != 0
}
