//go:build unix

// Command crowd counts how often processes that all want one name in an SQLite file hold
// it, how long each took to open the file while the others were at it, and what failed.
//
//	go -C bench run ./sqlitebench/crowd -processes 10,50,100,300
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl"
	_ "github.com/pawl-go/pawl/sqllock/sqlite"
)

const fileEnv = "PAWL_CROWD_FILE"

// A result is what one process counted.
type result struct {
	Holds, Failed, Unknown, Twice int64
	Last                          string // a failure; "-": there was none
}

func main() {
	if path := os.Getenv(fileEnv); path != "" {
		check(child(path))
		return
	}
	processes := flag.String("processes", "10,50,100,300", "how many processes, by comma")
	length := flag.Duration("for", 5*time.Second, "how long to count once all have opened the file")
	flag.Parse()
	for n := range strings.SplitSeq(*processes, ",") {
		var count int
		_, err := fmt.Sscan(n, &count)
		check(err)
		check(measure(count, *length))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(1)
	}
}

// child locks and unlocks until its input ends. It writes how long Open took, and what it
// has counted between two lines that it reads.
func child(path string) error {
	begun := time.Now()
	c, err := pawl.Open(context.Background(), "sqlite://"+path)
	if err != nil {
		return err
	}
	fmt.Println(time.Since(begun))
	var stop atomic.Bool
	var holds, failed, unknown, twice atomic.Int64
	var last atomic.Value
	last.Store("-")
	ended := make(chan error)
	go func() { // received below
		m := c.Mutex("job")
		for !stop.Load() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			lease, err := m.Lock(ctx)
			cancel()
			if err != nil {
				failed.Add(1)
				last.Store(strings.ReplaceAll(err.Error(), " ", "_"))
				continue
			}
			f, err := os.OpenFile(path+".held", os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				twice.Add(1)
			}
			_ = f.Close()
			_ = os.Remove(path + ".held")
			if err := lease.Unlock(); errors.Is(err, pawl.ErrUnknown) {
				unknown.Add(1)
			} else if err != nil {
				failed.Add(1)
				last.Store(strings.ReplaceAll(err.Error(), " ", "_"))
			}
			holds.Add(1)
		}
		ended <- c.Close()
	}()
	var from int64
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "begin" {
			from = holds.Load()
			continue
		}
		fmt.Println(holds.Load()-from, failed.Load(), unknown.Load(), twice.Load(), last.Load())
	}
	stop.Store(true)
	return <-ended
}

func measure(n int, length time.Duration) error {
	dir, err := os.MkdirTemp("", "crowd")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var in []io.WriteCloser
	var out []*bufio.Reader
	var opens []time.Duration
	var cmds []*exec.Cmd
	for range n {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), fileEnv+"="+filepath.Join(dir, "crowd.db")), os.Stderr
		w, err := cmd.StdinPipe()
		check(err)
		r, err := cmd.StdoutPipe()
		check(err)
		check(cmd.Start())
		in, out, cmds = append(in, w), append(out, bufio.NewReader(r)), append(cmds, cmd)
	}
	for _, r := range out {
		var took string
		_, err := fmt.Fscanln(r, &took)
		check(err)
		d, err := time.ParseDuration(took)
		check(err)
		opens = append(opens, d)
	}
	say := func(what string) {
		for _, w := range in {
			fmt.Fprintln(w, what)
		}
	}
	say("begin")
	time.Sleep(length)
	say("end")
	var sum result
	var each []int64
	for _, r := range out {
		var x result
		_, err := fmt.Fscanln(r, &x.Holds, &x.Failed, &x.Unknown, &x.Twice, &x.Last)
		check(err)
		each = append(each, x.Holds)
		sum.Holds, sum.Failed, sum.Unknown, sum.Twice = sum.Holds+x.Holds, sum.Failed+x.Failed, sum.Unknown+x.Unknown, sum.Twice+x.Twice
		if x.Last != "-" {
			sum.Last = x.Last
		}
	}
	for _, w := range in {
		w.Close()
	}
	for _, cmd := range cmds {
		cmd.Wait()
	}
	slices.Sort(opens)
	fmt.Printf("%4d processes: %7.1f holds/s, each %d to %d; open %v, the slowest %v; %d failed, %d unlocks unknown, %d held twice %s\n",
		n, float64(sum.Holds)/length.Seconds(), slices.Min(each), slices.Max(each), opens[n/2].Round(time.Millisecond), opens[n-1].Round(time.Millisecond), sum.Failed, sum.Unknown, sum.Twice, sum.Last)
	return nil
}
