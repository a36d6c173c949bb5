package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/pawl-go/pawl"
)

const (
	quietFor  = 400 * time.Millisecond // a wait shorter than this is not worth a word
	redraw    = time.Second
	lineEvery = 30 * time.Second
)

// A view tells whoever waits what for: on a terminal one line that is redrawn,
// elsewhere a line now and then.
type view struct {
	j       *job
	c       *pawl.Client
	start   time.Time
	others  bool // it may be ours by now: speak only of another that holds it
	fd      int  // of the terminal; -1: none
	spoke   bool
	drawn   chan struct{} // closed when the last line is on the terminal; nil: there was none
	stop    context.CancelFunc
	stopped chan struct{} // closed when show has ended
}

func (j *job) view(ctx context.Context, c *pawl.Client, others bool) *view {
	v := &view{j: j, c: c, start: time.Now(), others: others, fd: -1, stopped: make(chan struct{})}
	ctx, v.stop = context.WithCancel(ctx)
	if f, ok := j.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		v.fd = int(f.Fd())
	}
	if j.quiet {
		close(v.stopped)
		return v
	}
	go v.show(ctx) // close waits for it
	return v
}

// close ends the view, clears its line and returns for how long we waited, or
// nothing if nobody was told of a wait. Nobody waits for the terminal: the lock may
// be ours by now.
func (v *view) close() (waited string) {
	v.stop()
	<-v.stopped
	if !v.spoke {
		return ""
	}
	if v.fd >= 0 {
		v.j.words.add(func() { v.print("\r\x1b[K") })
	}
	return brief(time.Since(v.start))
}

func (v *view) show(ctx context.Context) {
	defer close(v.stopped)
	timer := time.NewTimer(quietFor)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		line, ok := v.line(ctx)
		if ctx.Err() != nil {
			return
		}
		if !ok {
			timer.Reset(quietFor)
			continue
		}
		v.spoke = true
		if v.fd < 0 {
			v.j.say("waiting for %s", line)
			timer.Reset(lineEvery)
			continue
		}
		v.draw("\r\x1b[K" + v.fit("waiting for "+line))
		timer.Reset(redraw)
	}
}

// draw puts a line on the terminal, unless that has stopped and the last one is not
// there yet.
func (v *view) draw(text string) {
	if v.drawn != nil {
		select {
		case <-v.drawn:
		default:
			return
		}
	}
	drawn := make(chan struct{})
	v.drawn = drawn
	v.j.words.add(func() {
		v.print(text)
		close(drawn)
	})
}

// print writes to the terminal, unless somebody else has it: a line that is redrawn
// would run over what is being typed.
func (v *view) print(text string) {
	if inForeground(v.fd) {
		fmt.Fprint(v.j.err, text)
	}
}

// line says who holds the lock, since when, why, and how many are before us; ok is
// false if there is nothing to say.
func (v *view) line(ctx context.Context) (s string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, redraw)
	defer cancel()
	first, ahead := place(ctx, v.c, v.j.line, v.j.note())
	if v.others && (first == nil || first.Note == v.j.note()) {
		return "", false
	}
	s = fmt.Sprintf("%q %s", v.j.name, brief(time.Since(v.start)))
	if v.fd < 0 {
		s = fmt.Sprintf("%q", v.j.name)
	}
	if first == nil {
		return s, true
	}
	who := holderOf(first.Note)
	s += " · held by " + who.String() + " for " + brief(first.Since)
	if who.User != "" && who.Reason != "" {
		s += ` ("` + plain(who.Reason) + `")`
	}
	if ahead > 0 {
		s += " · " + ordinal(ahead) + " in line"
	}
	return s, true
}

// fit cuts a line to the terminal: one that wraps could not be redrawn.
func (v *view) fit(s string) string {
	width, _, err := term.GetSize(v.fd)
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

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
