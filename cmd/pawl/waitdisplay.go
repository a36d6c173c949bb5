package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pawl-go/pawl"
	"golang.org/x/term"
)

const (
	quietFor    = 400 * time.Millisecond // a wait shorter than this is not worth a word
	redrawEvery = time.Second
	lineEvery   = 30 * time.Second
)

// A view tells whoever waits what for: on a terminal one line that is redrawn,
// elsewhere a line now and then.
type waitDisplay struct {
	j          *job
	c          *pawl.Client
	start      time.Time
	onlyOthers bool // it may be ours by now: speak only of another that holds it
	fd         int  // of the terminal; -1: none
	shown      bool
	drawn      chan struct{} // closed when the last line is on the terminal; nil: there was none
	stop       context.CancelFunc
	stopped    chan struct{} // closed when show has ended
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

// close ends the view, clears its line and returns for how long we waited, or
// nothing if nobody was told of a wait. Nobody waits for the terminal: the lock may
// be ours by now.
func (d *waitDisplay) close() (waited string) {
	d.stop()
	<-d.stopped
	if !d.shown {
		return ""
	}
	if d.fd >= 0 {
		d.j.messages.add(func() { d.print("\r\x1b[K") })
	}
	return brief(time.Since(d.start))
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

// draw puts a line on the terminal, unless that has stopped and the last one is not
// there yet.
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

// print writes to the terminal, unless somebody else has it: a line that is redrawn
// would run over what is being typed.
func (d *waitDisplay) print(text string) {
	if inForeground(d.fd) {
		fmt.Fprint(d.j.err, text)
	}
}

// line says who holds the lock, since when, why, and how many are before us; ok is
// false if there is nothing to say.
func (d *waitDisplay) line(ctx context.Context) (s string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, redrawEvery)
	defer cancel()
	first, ahead := placeInLine(ctx, d.c, d.j.lockName, d.j.note())
	if d.onlyOthers && (first == nil || first.Note == d.j.note()) {
		return "", false
	}
	s = fmt.Sprintf("%q %s", d.j.name, brief(time.Since(d.start)))
	if d.fd < 0 {
		s = fmt.Sprintf("%q", d.j.name)
	}
	if first == nil {
		return s, true
	}
	who := parseNote(first.Note)
	s += " · held by " + who.String() + " for " + brief(first.Since)
	if who.User != "" && who.Reason != "" {
		s += ` ("` + escapeHidden(who.Reason) + `")`
	}
	if ahead > 0 {
		s += " · " + ordinal(ahead) + " in line"
	}
	return s, true
}

// fit cuts a line to the terminal: one that wraps could not be redrawn.
func (d *waitDisplay) fit(s string) string {
	width, _, err := term.GetSize(d.fd)
	if err != nil || width <= 0 {
		width = 80
	}
	return cut(s, width-1) // a cursor behind the last column may wrap too
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
