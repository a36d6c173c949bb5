package contest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// childEnv tells a process that it is one of many, who it is and where the store is.
const childEnv = "PAWL_BENCH_CHILD"

// An Opener returns what opens clients of the store at addr.
type Opener func(addr string) func(ctx context.Context) (Locker, error)

// Child does the work of one process and exits, if that is what this process is for.
// A program that uses Processes calls it first. The openers are by part and contender,
// as "redis/redsync".
func Child(openers map[string]Opener) {
	who, addr, ok := strings.Cut(os.Getenv(childEnv), "@")
	if !ok {
		return
	}
	err := fmt.Errorf("nobody is called %q", who)
	if open := openers[who]; open != nil {
		err = serve(open(addr), os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve does a round for each duration that it reads, and writes how many turns it
// had. It ends with its input, and so with the process that started it.
func serve(open func(ctx context.Context) (Locker, error), in io.Reader, out io.Writer) error {
	l, err := open(context.Background())
	if err != nil {
		return err
	}
	crew := &crowd{locker: l, names: []string{"bench/processes"}}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		length, err := time.ParseDuration(lines.Text())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), length+patience)
		turns, _, err := crew.run(ctx, length)
		cancel()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, turns[0])
	}
	return l.Close()
}

// Processes is n processes that all want one name. part is the first word of the
// contenders' names in [Child].
func Processes(n int, part, addr string) Work {
	return Work{
		Name:  "processes",
		Does:  fmt.Sprintf("lock and unlock, %d processes, all want one name", n),
		Units: []Unit{{Name: "locks/s"}, {Name: "fewest-turns"}, {Name: "most-turns", Fewer: true}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			var f fleet
			for range n {
				s, err := launch(part+"/"+c.Name, addr)
				if err != nil {
					return nil, errors.Join(err, f.Close())
				}
				f = append(f, s)
			}
			return f, nil
		},
	}
}

// A ship is one of many processes.
type ship struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs strings.Builder
}

func launch(who, addr string) (*ship, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &ship{cmd: exec.Command(self)}
	s.cmd.Env = append(os.Environ(), childEnv+"="+who+"@"+addr)
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	return s, s.cmd.Start()
}

func (s *ship) Close() error {
	_ = s.in.Close()
	late := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(s.errs.String()))
	}
	return nil
}

// turns waits for the answer to a round. One that does not come in time is never
// waited for: Close ends the process.
func (s *ship) turns(ctx context.Context) (n int, err error) {
	read := make(chan error, 1)
	go func() { // ends with the process at the latest
		_, err := fmt.Fscanln(s.out, &n)
		read <- err
	}()
	select {
	case err = <-read:
		return n, err
	case <-ctx.Done():
		_ = s.cmd.Process.Kill()
		return 0, errors.Join(ctx.Err(), <-read)
	}
}

type fleet []*ship

func (f fleet) Close() error {
	var errs []error
	for _, s := range f {
		_ = s.in.Close() // all begin to end
	}
	for _, s := range f {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func (f fleet) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	for _, s := range f {
		if _, err := fmt.Fprintln(s.in, length); err != nil {
			return nil, err
		}
	}
	turns := make([]float64, len(f))
	total := 0.
	for i, s := range f {
		n, err := s.turns(ctx)
		if err != nil {
			return nil, err
		}
		turns[i] = float64(n)
		total += turns[i]
	}
	return []float64{total / length.Seconds(), slices.Min(turns), slices.Max(turns)}, nil
}
