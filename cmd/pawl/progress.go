package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// progress shows the progress of bench in one line on a terminal. Without a
// terminal it prints nothing.
type progress struct {
	t       *benchRun
	shown   bool
	stop    chan struct{}
	stopped chan struct{} // closed when draw has ended

	mu    sync.Mutex // guards everything below, and writing
	kind  string     // empty: no measurement is running
	begun time.Time  // start of this kind
	done  int        // finished kinds
}

func (b *benchRun) progress() *progress {
	p := &progress{t: b, stop: make(chan struct{}), stopped: make(chan struct{})}
	p.shown = isTerminal(b.err) && os.Getenv("TERM") != "dumb"
	if !p.shown {
		close(p.stopped)
		return p
	}
	go p.draw() // close waits for it
	return p
}

func (p *progress) begin(kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kind, p.begun = kind, time.Now()
	p.lineLocked()
}

// clear ends a kind and removes the line, so that other output can be printed.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kind = ""
	p.done++
	if p.shown {
		fmt.Fprint(p.t.err, "\r\x1b[K")
	}
}

func (p *progress) close() {
	close(p.stop)
	<-p.stopped
}

func (p *progress) draw() {
	defer close(p.stopped)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.mu.Lock()
			p.lineLocked()
			p.mu.Unlock()
		case <-p.stop:
			return
		}
	}
}

func (p *progress) lineLocked() {
	if !p.shown || p.kind == "" {
		return
	}
	spent := min(time.Since(p.begun), p.t.length)
	all := time.Duration(len(p.t.kinds)) * p.t.length
	sofar := time.Duration(p.done)*p.t.length + spent
	width := columnsIn(p.t.err) - 1 // a cursor after the last column may wrap
	text := fmt.Sprintf("%-8s %d of %d, %s to go", p.kind, p.done+1, len(p.t.kinds), claimview.Brief((all - sofar).Round(time.Second)))
	if room := min(width-len(text)-3, 40); room >= 5 {
		full := int(float64(room) * float64(sofar) / float64(all))
		text = "[" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "] " + text
	}
	fmt.Fprint(p.t.err, "\r\x1b[K"+cut(text, width))
}
