package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// An event is one line of --events.
type event struct {
	Time  time.Time       `json:"time"`
	Event string          `json:"event"` // waiting, acquired, busy, interrupted, failed, started, lost, released, replayed (the command was not run); exit replaces released after a loss
	Name  string          `json:"name"`
	Token claimview.Token `json:"token,omitempty"`
	PID   int             `json:"pid,omitempty"`
	Code  *int            `json:"code,omitempty"`
	Error string          `json:"error,omitempty"`
}

// events writes the file of --events; a nil *events writes nothing.
type events struct {
	f      *os.File
	writer asyncWriter
}

// openEvents opens the file of --events. A named pipe cannot be written to before
// somebody reads from it, so a reader has wait to come.
func openEvents(path string, wait time.Duration) (*events, error) {
	if path == "" {
		return nil, nil
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if there, err := os.Stat(path); err == nil && there.Mode()&fs.ModeNamedPipe != 0 {
		flags |= syscall.O_NONBLOCK // otherwise the call would wait for a reader, for ever
	}
	for giveUp := time.Now().Add(wait); ; time.Sleep(10 * time.Millisecond) {
		f, err := os.OpenFile(path, flags, 0o644)
		switch {
		case err == nil:
			return &events{f: f}, nil
		case flags&syscall.O_NONBLOCK == 0 || !errors.Is(err, syscall.ENXIO):
			return nil, &exitError{exitUsage, fmt.Errorf("--events: %w", err)}
		case !time.Now().Before(giveUp):
			return nil, &exitError{exitUsage, fmt.Errorf("--events %s: nobody reads from this pipe", path)}
		}
	}
}

// add appends an event. Write errors are ignored: the lock matters more than its
// log.
func (e *events) add(ev event) {
	if e == nil {
		return
	}
	ev.Time = time.Now().UTC()
	line, err := claimview.ToJSON(ev, "")
	if err != nil {
		return
	}
	e.writer.add(func() { _, _ = e.f.Write(line) })
}

func (e *events) close() {
	if e != nil {
		e.writer.wait()
		_ = e.f.Close()
	}
}
