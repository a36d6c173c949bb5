// Package lockbench measures a store by taking locks in it.
//
// It does not compare: a result describes one store on one day, with one machine
// and one network. The module bench compares pawl with other locks.
package lockbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
)

// A Kind is one kind of work.
type Kind struct {
	Name string // one word
	Does string // one line
	// Of says what one duration measures.
	Of         string
	Goroutines int
	Clients    int
	run        func(ctx context.Context, r *runner) error
}

// Kinds returns all kinds of work; those with many goroutines use n.
func Kinds(n int) []Kind {
	return []Kind{
		{"alone", "1 goroutine, nobody else wants the name", "a lock with its unlock", 1, 1, apart},
		{"apart", fmt.Sprintf("%d goroutines of one client, each with a name of its own", n), "a lock with its unlock", n, 1, apart},
		{"together", fmt.Sprintf("%d goroutines of one client, all want one name", n), "a wait, a lock and its unlock", n, 1, together},
		{"handoff", "2 clients, one waits for what the other gives back", "from before the unlock until the other has it", 2, 2, handoff},
	}
}

// A Result is the measurement of one kind of work.
type Result struct {
	Kind
	Took         time.Duration
	Times        Histogram
	Fewest, Most int // acquisitions per goroutine
}

// PerSecond returns the rate; 0 if pauses dominate, which makes it meaningless.
func (r *Result) PerSecond() float64 {
	if r.Took <= 0 || r.Clients > 1 {
		return 0
	}
	return float64(r.Times.N()) / r.Took.Seconds()
}

// Run runs one kind of work for about length. open returns the clients, which Run
// closes, and all names begin with prefix. If ctx ends earlier, Run returns its
// error. No lock is held afterwards, as far as the store could be reached.
func Run(ctx context.Context, k Kind, open func(opts ...pawl.Option) (*pawl.Client, error), prefix string, length time.Duration) (res Result, err error) {
	r := &runner{prefix: prefix + k.Name, length: length, waiting: make(chan struct{}, 1), times: make([]Histogram, k.Goroutines)}
	if r.from, err = open(); err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, r.from.Close()) }()
	if k.Clients > 1 {
		if r.to, err = open(pawl.WithObserver(r)); err != nil {
			return res, err
		}
		defer func() { err = errors.Join(err, r.to.Close()) }()
	}
	// A store that stops answering would block: that is right for a lock, but not
	// for a measurement.
	ctx, stop := context.WithTimeoutCause(ctx, length+extraTime, errSilent)
	defer stop()
	if err := k.run(ctx, r); err != nil {
		return res, err
	}
	return r.result(k), nil
}

// extraTime is how much longer than requested a measurement may take.
const extraTime = 15 * time.Second

var errSilent = fmt.Errorf("%w: the store does not answer any more", pawl.ErrUnreachable)
