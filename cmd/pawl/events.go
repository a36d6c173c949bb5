package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// An event is one line of --events.
type event struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // waiting, acquired, busy, interrupted, failed, started, lost, released, replayed (nothing was run); exit, in place of released, after a loss
	Name  string    `json:"name"`
	Token token     `json:"token,omitempty"`
	PID   int       `json:"pid,omitempty"`
	Code  *int      `json:"code,omitempty"`
	Error string    `json:"error,omitempty"`
}

// A token is printed as a string: it is larger than the integers that jq and
// JavaScript keep whole.
type token uint64

// MarshalText writes the token in decimal.
func (t token) MarshalText() ([]byte, error) {
	return strconv.AppendUint(nil, uint64(t), 10), nil
}

// events is the file that --events names; nil is none.
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

// add appends an event. A file that cannot be written to does not stop the
// command: the lock matters more than its record.
func (e *events) add(ev event) {
	if e == nil {
		return
	}
	ev.Time = time.Now().UTC()
	line, err := toJSON(ev, "")
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
