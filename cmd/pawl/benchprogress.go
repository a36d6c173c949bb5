package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// benchProgress is how far a run of bench has come.
type benchProgress struct {
	length time.Duration // of each kind
	kinds  int

	mu    sync.Mutex // guards everything below
	kind  string     // empty: no measurement is running
	begun time.Time  // start of this kind
	done  int        // finished kinds
}

func (p *benchProgress) begin(kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kind, p.begun = kind, time.Now()
}

func (p *benchProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kind = ""
	p.done++
}

// state is what a progressBar shows.
func (p *benchProgress) state() (text string, share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kind == "" {
		return "", 0
	}
	all := time.Duration(p.kinds) * p.length
	sofar := time.Duration(p.done)*p.length + min(time.Since(p.begun), p.length)
	text = fmt.Sprintf("%-8s %d of %d, %s to go", p.kind, p.done+1, p.kinds, claimview.Brief((all - sofar).Round(time.Second)))
	return text, float64(sofar) / float64(all)
}
