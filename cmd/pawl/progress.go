package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// A progressBar shows how far a long run has come, in one line on a terminal. Without a
// terminal it prints nothing.
type progressBar struct {
	app     *app
	state   func() (text string, share float64) // text is empty while nothing is running
	shown   bool
	stop    chan struct{}
	stopped chan struct{} // closed when draw has ended
	mu      sync.Mutex    // guards writing
}

// progress starts a progressBar. close must be called.
func (a *app) progress(state func() (text string, share float64)) *progressBar {
	p := &progressBar{app: a, state: state, stop: make(chan struct{}), stopped: make(chan struct{})}
	p.shown = isTerminal(a.err) && os.Getenv("TERM") != "dumb"
	if !p.shown {
		close(p.stopped)
		return p
	}
	go p.draw() // close waits for it
	return p
}

// clear removes the line, so that other output can be printed.
func (p *progressBar) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.app.err, "\r\x1b[K")
	}
}

func (p *progressBar) close() {
	close(p.stop)
	<-p.stopped
	p.clear()
}

func (p *progressBar) draw() {
	defer close(p.stopped)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		p.show()
		select {
		case <-tick.C:
		case <-p.stop:
			return
		}
	}
}

// show draws the line.
func (p *progressBar) show() {
	if !p.shown {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text, share := p.state()
	if text == "" {
		return
	}
	width := columnsIn(p.app.err) - 1 // a cursor after the last column may wrap
	if room := min(width-displayWidth(text)-3, 40); room >= 5 {
		full := int(float64(room) * min(share, 1))
		text = "[" + strings.Repeat("#", full) + strings.Repeat(".", room-full) + "] " + text
	}
	fmt.Fprint(p.app.err, "\r\x1b[K"+cut(text, width))
}
