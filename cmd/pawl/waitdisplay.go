package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"golang.org/x/term"
)

const (
	quietFor    = 400 * time.Millisecond // shorter waits are not displayed
	redrawEvery = time.Second
	lineEvery   = 30 * time.Second
)

// A waitDisplay shows what pawl waits for: on a terminal in one line that is
// redrawn, otherwise as a line from time to time.
type waitDisplay struct {
	j          *job
	c          *pawl.Client
	start      time.Time
	onlyOthers bool // the lock may be ours by now: show it only if another holds it
	fd         int  // of the terminal; -1: none
	shown      bool
	drawn      chan struct{} // closed when the last line is on the terminal; nil: no line yet
	stop       context.CancelFunc
	stopped    chan struct{} // closed when run has ended
}

func (j *job) showWait(ctx context.Context, c *pawl.Client, others bool) *waitDisplay {
	d := &waitDisplay{j: j, c: c, start: time.Now(), onlyOthers: others, fd: -1, stopped: make(chan struct{})}
	ctx, d.stop = context.WithCancel(ctx)
	if f, ok := j.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		d.fd = int(f.Fd())
	}
	if j.quiet {
		close(d.stopped)
		return d
	}
	go d.run(ctx) // close waits for it
	return d
}

// close ends the display and clears its line. It returns how long the wait took, or
// nothing if no wait was displayed. It does not wait for the terminal, because the
// lock may be held by now.
func (d *waitDisplay) close() (waited string) {
	d.stop()
	<-d.stopped
	if !d.shown {
		return ""
	}
	if d.fd >= 0 {
		d.j.messages.add(func() { d.print("\r\x1b[K") })
	}
	return claimview.Brief(time.Since(d.start))
}

func (d *waitDisplay) run(ctx context.Context) {
	defer close(d.stopped)
	timer := time.NewTimer(quietFor)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		line, ok := d.line(ctx)
		if ctx.Err() != nil {
			return
		}
		if !ok {
			timer.Reset(quietFor)
			continue
		}
		d.shown = true
		if d.fd < 0 {
			d.j.say("waiting for %s", line)
			timer.Reset(lineEvery)
			continue
		}
		d.draw("\r\x1b[K" + d.fit("waiting for "+line))
		timer.Reset(redrawEvery)
	}
}

// draw draws a line on the terminal, unless the terminal has stopped and the
// previous line is still pending.
func (d *waitDisplay) draw(text string) {
	if d.drawn != nil {
		select {
		case <-d.drawn:
		default:
			return
		}
	}
	drawn := make(chan struct{})
	d.drawn = drawn
	d.j.messages.add(func() {
		d.print(text)
		close(drawn)
	})
}

// print writes to the terminal, unless another job is in the foreground: a redrawn
// line would overwrite what the user types.
func (d *waitDisplay) print(text string) {
	if inForeground(d.fd) {
		fmt.Fprint(d.j.err, text)
	}
}

// line describes the holder, since when, why, and our place in line. ok is false if
// there is nothing to show.
func (d *waitDisplay) line(ctx context.Context) (s string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, redrawEvery)
	defer cancel()
	first, ahead := placeInLine(ctx, d.c, d.j.lockName, d.j.note())
	if d.onlyOthers && (first == nil || first.Note == d.j.note()) {
		return "", false
	}
	s = fmt.Sprintf("%q %s", d.j.name, claimview.Brief(time.Since(d.start)))
	if d.fd < 0 {
		s = fmt.Sprintf("%q", d.j.name)
	}
	if first == nil {
		return s, true
	}
	who := claimview.ParseNote(first.Note)
	s += " · held by " + who.String() + " for " + claimview.Brief(first.Since)
	if who.User != "" && who.Reason != "" {
		s += ` ("` + claimview.EscapeHidden(who.Reason) + `")`
	}
	if ahead > 0 {
		s += " · " + ordinal(ahead) + " in line"
	}
	return s, true
}

// fit shortens a line to the terminal's width: a line that wraps cannot be redrawn.
func (d *waitDisplay) fit(s string) string {
	width, _, err := term.GetSize(d.fd)
	if err != nil || width <= 0 {
		width = 80
	}
	return cut(s, width-1) // a cursor after the last column may wrap
}

func ordinal(n int) string {
	suffix := "th"
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		suffix = "st"
	case n%10 == 2:
		suffix = "nd"
	case n%10 == 3:
		suffix = "rd"
	}
	return fmt.Sprint(n) + suffix
}
