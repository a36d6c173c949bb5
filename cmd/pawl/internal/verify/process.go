package verify

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/internal/history"
)

// A process is a worker as the coordinator sees it.
type process struct {
	client int // its number in the history, never used again
	cmd    *exec.Cmd
	orders lineWriter
	ready  chan error    // how the worker began: nil, or why it could not
	ended  chan struct{} // closed when the process has ended and its records are read
	told   atomic.Bool   // it was told to end
}

// An openError is why a worker could not open the store.
type openError struct{ text string }

func (e *openError) Error() string { return e.text }

// start starts a worker, whose records go to the recorder. died is called if the worker
// was ready, and ends without being told to.
func start(program string, args []string, client int, s setup, r *recorder, died func(error)) (*process, error) {
	p := &process{client: client, cmd: &exec.Cmd{Path: program, Args: args}, ready: make(chan error, 1), ended: make(chan struct{})}
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PAWL_STORE=") }) // it may have a password, and a setup is sent
	separate(p.cmd)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.orders.w = in
	go p.read(out, r, died) // ends with the process
	if err := p.orders.write(order{Setup: &s}); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// read reads the worker's records until it ends.
func (p *process) read(out io.Reader, r *recorder, died func(error)) {
	defer close(p.ended)
	ready := false
	err := readLines(out, func(in record) {
		switch {
		case in.Ready:
			ready = true
			p.ready <- nil
		case in.Fatal != "":
			p.ready <- &openError{in.Fatal}
		case r.add(p.client, in):
			_ = p.orders.write(order{Answer: in.ID}) // one that was killed needs no answer
		}
	})
	if err != nil {
		_ = p.cmd.Process.Kill() // what it does now cannot be recorded
	}
	exit := p.cmd.Wait()
	if err = cmp.Or(err, exit, errors.New("without an error")); ready && !p.told.Load() {
		died(fmt.Errorf("a worker ended by itself: %w", err))
	}
	select {
	case p.ready <- fmt.Errorf("a worker ended at once: %w", err):
	default:
	}
}

// send gives an order, and returns when that was.
func (p *process) send(o order) history.Time {
	at := now()
	_ = p.orders.write(o) // to one that has ended: nothing
	return at
}

// kill ends the process at once and waits for it.
func (p *process) kill() history.Time {
	at := now()
	p.told.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
	return at
}

// stop asks the worker to give everything back, and kills it if it takes too long.
func (p *process) stop(within time.Duration) (killed bool) {
	p.told.Store(true)
	p.send(order{Heal: true})
	p.send(order{Stop: true})
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-p.ended:
		return false
	case <-t.C:
		p.kill()
		return true
	}
}
