package main

import (
	"fmt"
	"os"
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

func openEvents(path string) (*events, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("--events: %w", err)}
	}
	return &events{f: f}, nil
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
