package main

import (
	"os"
	"strings"
	"time"
)

// maxOutput is how much output is kept: a record has 64 KiB, and bytes become text
// that is a third longer.
const maxOutput = 40 << 10

// A listener passes the command's output on and keeps it.
type listener struct {
	in   *os.File // the command's end
	kept strings.Builder
	done chan struct{} // closed when all was passed on
}

func listen(to *os.File) (*listener, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	l := &listener{in: w, done: make(chan struct{})}
	go func() { // ends with the last writer, or with us
		defer close(l.done)
		defer r.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
				return // the command then finds its output closed, as without us
			}
			if l.kept.Len() <= maxOutput {
				l.kept.Write(buf[:n])
			}
		}
	}()
	return l, nil
}

// end waits for the rest of the output. Something the command left running may hold
// the pipe for ever: what it writes is not the command's output any more.
func (l *listener) end() ([]byte, string) {
	_ = l.in.Close()
	select {
	case <-l.done:
	case <-time.After(time.Second):
		return nil, "was still being written when the command ended, and not kept"
	}
	if l.kept.Len() > maxOutput {
		return nil, outputLarge
	}
	return []byte(l.kept.String()), outputKept
}
