package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// maxOutput is how much output is kept: a record has 64 KiB, and bytes become
	// text that is a third longer.
	maxOutput = 40 << 10
	// maxPipe is more than a pipe holds: the command's last words are within it.
	maxPipe = 1 << 20
	// idle is how long the pipe may stay silent and open after the command's end.
	idle = time.Second
)

// A listener passes the command's output on and keeps it.
type outputCapture struct {
	in           *os.File // the command's end
	out          *os.File // ours
	commandEnded atomic.Bool
	done         chan struct{}   // closed when all was passed on
	kept         strings.Builder // until done: of the goroutine that passes it on
	incomplete   string          // why it is not all; as kept
}

func captureOutput(to io.Writer) (*outputCapture, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &outputCapture{in: w, out: r, done: make(chan struct{})}
	go func() { // ends with the last writer, soon after the command, or with us
		defer close(c.done)
		defer r.Close() // the command then finds its output closed, as without us
		c.incomplete = c.copyOutput(to)
	}()
	return c, nil
}

// pass passes the output on to its end, or says why it did not.
func (c *outputCapture) copyOutput(to io.Writer) (lacks string) {
	buf := make([]byte, 32<<10)
	for silence, rest := idle, maxPipe; rest > 0; {
		began := time.Now()
		if c.commandEnded.Load() {
			_ = c.out.SetReadDeadline(began.Add(silence))
		}
		n, err := c.out.Read(buf)
		if c.commandEnded.Load() {
			silence, rest = silence-time.Since(began), rest-n
		}
		if _, werr := to.Write(buf[:n]); werr != nil {
			return outputUnread
		}
		if c.kept.Len() <= maxOutput {
			c.kept.Write(buf[:n])
		}
		switch {
		case errors.Is(err, io.EOF):
			return ""
		case err != nil:
			return outputOpen
		}
	}
	return outputOpen
}

// end waits for the rest of the output, for as long as it takes to be read: after the
// command's end it is nowhere else. A signal ends that. Something the command left
// running may hold the pipe for ever: what it writes is not the command's output any
// more.
func (c *outputCapture) finish(signals <-chan os.Signal) ([]byte, string) {
	_ = c.in.Close()
	c.commandEnded.Store(true)
	var late <-chan time.Time
	if err := c.out.SetReadDeadline(time.Now().Add(idle)); errors.Is(err, os.ErrNoDeadline) {
		late = time.After(idle)
	}
	for {
		select {
		case <-c.done:
			return c.result()
		case <-late:
			return nil, outputOpen
		case sig := <-signals:
			if terminates(sig) {
				return nil, outputUnread
			}
		}
	}
}

func (c *outputCapture) result() ([]byte, string) {
	switch {
	case c.incomplete != "":
		return nil, c.incomplete
	case c.kept.Len() > maxOutput:
		return nil, outputLarge
	}
	return []byte(c.kept.String()), outputKept
}
