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
	// maxOutput is how much output is stored: a record has 64 KiB, and base64 adds
	// a third.
	maxOutput = 40 << 10
	// maxPipe is more than a pipe can hold, so the command's remaining output is
	// within it.
	maxPipe = 1 << 20
	// idle is how long to wait for output after the command has ended while another
	// process keeps the pipe open.
	idle = time.Second
)

// An outputCapture copies the command's output and keeps it.
type outputCapture struct {
	in           *os.File // the command's end of the pipe
	out          *os.File // pawl's end of the pipe
	commandEnded atomic.Bool
	done         chan struct{}   // closed when everything is copied
	kept         strings.Builder // owned by the copying goroutine until done
	incomplete   string          // why output is missing; owned like kept
}

func captureOutput(to io.Writer) (*outputCapture, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &outputCapture{in: w, out: r, done: make(chan struct{})}
	go func() { // ends with the last writer, soon after the command, or with the process
		defer close(c.done)
		defer r.Close() // the command then sees a closed output, as it would without pawl
		c.incomplete = c.copyOutput(to)
	}()
	return c, nil
}

// copyOutput copies the output to its end. It returns why it could not.
func (c *outputCapture) copyOutput(to io.Writer) (incomplete string) {
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

// finish waits until the rest of the output has been read: after the command's end
// it exists nowhere else. A signal ends the wait. A process that the command left
// running may keep the pipe open for ever, but its output is no longer the
// command's.
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
