package compare

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

// childEnv tells a child process which contender it is and where the store is.
const childEnv = "PAWL_BENCH_CHILD"

// An Opener returns a function that opens clients of the store at addr.
type Opener func(addr string) func(ctx context.Context) (Locker, error)

// Child runs this process as a child and exits, if it is one. A program that uses
// Processes calls it first. The keys of openers are part and contender, such as
// "redis/redsync".
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

// serve does a round for each duration that it reads, and writes how many locks it
// had. It ends with its input, and so with its parent.
func serve(open func(ctx context.Context) (Locker, error), in io.Reader, out io.Writer) error {
	l, err := open(context.Background())
	if err != nil {
		return err
	}
	crew := &workers{locker: l, names: []string{"bench/processes"}}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		length, err := time.ParseDuration(lines.Text())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), length+defaultExtraTime)
		turns, _, err := crew.run(ctx, length)
		cancel()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, turns[0])
	}
	return l.Close()
}

// Processes measures n processes that contend for one name. part is the first word
// of the contenders' keys in [Child].
func Processes(n int, part, addr string) Work {
	return Work{
		Name:  "processes",
		Does:  fmt.Sprintf("lock and unlock, %d processes, all want one name", n),
		Units: []Unit{{Name: "locks/s"}, {Name: "fewest-turns"}, {Name: "most-turns", Fewer: true}},
		Begin: func(ctx context.Context, c Contender) (Rounds, error) {
			var f processGroup
			for range n {
				s, err := startChild(part+"/"+c.Name, addr)
				if err != nil {
					return nil, errors.Join(err, f.Close())
				}
				f = append(f, s)
			}
			return f, nil
		},
	}
}

// A childProcess is one of these processes.
type childProcess struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs strings.Builder
}

func startChild(who, addr string) (*childProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &childProcess{cmd: exec.Command(self)}
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

func (s *childProcess) Close() error {
	_ = s.in.Close()
	late := time.AfterFunc(defaultExtraTime, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(s.errs.String()))
	}
	return nil
}

// locksDone waits for the result of a round. A process that does not answer in time
// is ended by Close.
func (s *childProcess) locksDone(ctx context.Context) (n int, err error) {
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

type processGroup []*childProcess

func (f processGroup) Close() error {
	var errs []error
	for _, s := range f {
		_ = s.in.Close() // makes all of them end
	}
	for _, s := range f {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func (f processGroup) Round(ctx context.Context, length time.Duration) ([]float64, error) {
	for _, s := range f {
		if _, err := fmt.Fprintln(s.in, length); err != nil {
			return nil, err
		}
	}
	turns := make([]float64, len(f))
	total := 0.
	for i, s := range f {
		n, err := s.locksDone(ctx)
		if err != nil {
			return nil, err
		}
		turns[i] = float64(n)
		total += turns[i]
	}
	return []float64{total / length.Seconds(), slices.Min(turns), slices.Max(turns)}, nil
}
