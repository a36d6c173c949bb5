package sim_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/history"
	"github.com/pawl-go/pawl/internal/sim"
)

// An order is what a child process is to simulate: every Step-th seed from First on, for a
// time or a number of episodes.
type order struct {
	First    uint64
	Step     uint64
	For      time.Duration
	Episodes int
	Quick    bool // only short episodes
}

// A result is what a child process says at its end.
type result struct {
	Tally    *sim.Tally
	Hash     string // of the last history
	Seed     uint64 // of the last episode
	Setting  string
	Breaches []sim.Breach
}

// stuckAfter is how much real time one episode may take.
const stuckAfter = 10 * time.Minute

// orderVar has the order of a child process, and mark begins the line with its result.
const (
	orderVar = "PAWL_SIM_ORDER"
	mark     = "simulated: "
)

// TestChild does what another process ordered.
func TestChild(t *testing.T) {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(orderVar)), &o); err != nil {
		return // it is not a child
	}
	r := result{Tally: sim.NewTally()}
	begun := time.Now()
	for seed, n := o.First, 0; n == 0 || n < o.Episodes || time.Since(begun) < o.For; seed += o.Step {
		if o.Quick && !sim.Quick(seed) {
			continue
		}
		n++
		r.Seed = seed
		stuck := time.AfterFunc(stuckAfter, func() {
			r.Breaches = []sim.Breach{{Rule: sim.EndlessWait, Text: fmt.Sprintf("simulated time stands still for %v", stuckAfter)}}
			r.print()
			os.Exit(1)
		})
		out := sim.Run(t, seed)
		stuck.Stop()
		r.Tally.Add(out.Tally)
		r.Hash, r.Setting, r.Breaches = out.Hash(), out.Setting, out.Breaches
		if len(r.Breaches) > 0 {
			break
		}
	}
	r.print()
}

func (r *result) print() {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // it has nothing that cannot be encoded
	}
	fmt.Println("\n" + mark + string(b))
}

// A child is a process that simulates.
type child struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

func start(t *testing.T, o order) *child {
	t.Helper()
	return startProgram(t, command(t, "-test.run=^TestChild$", "-test.timeout=0"), o)
}

func startProgram(t *testing.T, cmd *exec.Cmd, o order) *child {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd}
	c.cmd.Env = append(os.Environ(), orderVar+"="+string(b))
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// wait returns the result of a child that has ended.
func (c *child) wait(t *testing.T) *result {
	t.Helper()
	err := c.cmd.Wait()
	r := &result{}
	if !parseResult(&c.out, r) {
		t.Fatalf("no result: %v\n%s", err, last(c.out.String(), 4000))
	}
	return r
}

// parseResult finds the result in a child's output.
func parseResult(out io.Reader, r *result) (found bool) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if text, ok := strings.CutPrefix(line, mark); ok && json.Unmarshal([]byte(text), r) == nil {
			return true
		}
		if err != nil {
			return false
		}
	}
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }

// TestSoakSimulation simulates for as long as PAWL_SIM or PAWL_SOAK says, with a process
// for each processor; or the one episode of PAWL_SIM_SEED.
func TestSoakSimulation(t *testing.T) {
	if seed, err := strconv.ParseUint(os.Getenv("PAWL_SIM_SEED"), 10, 64); err == nil {
		replay(t, seed)
		return
	}
	d, err := time.ParseDuration(os.Getenv("PAWL_SIM"))
	if err != nil {
		d, err = time.ParseDuration(os.Getenv("PAWL_SOAK"))
	}
	if err != nil {
		t.Skip("set PAWL_SIM to a duration, such as 10m, or PAWL_SIM_SEED to a seed")
	}
	first := uint64(time.Now().UnixMilli()) * 1000
	n := runtime.NumCPU()
	fmt.Printf("the first seed is %d\n", first)
	results := make(chan *result, n)
	for i := range n {
		c := start(t, order{First: first + uint64(i), Step: uint64(n), For: d})
		go func() { results <- c.wait(t) }()
	}
	total := sim.NewTally()
	for range n {
		r := <-results
		total.Add(r.Tally)
		if len(r.Breaches) > 0 {
			report(t, r.Seed, r.Setting, r.Breaches)
			break // the others end with the test
		}
	}
	fmt.Printf("the first seed was %d\n%v", first, total)
}

// replay runs one episode and shows what happened.
func replay(t *testing.T, seed uint64) {
	o := sim.Run(t, seed)
	fmt.Print(o.Text())
	fmt.Printf("seed %d: %s, %d attempts, history %.16s\n%v", seed, o.Setting, len(o.History.Attempts), o.Hash(), o.Tally)
	report(t, seed, o.Setting, o.Breaches)
}

func report(t *testing.T, seed uint64, setting string, breaches []sim.Breach) {
	seen := map[history.Rule]bool{}
	for _, b := range breaches {
		if !seen[b.Rule] {
			t.Errorf("VIOLATED: %s\n  at %v: %s\n  seed %d: %s\n  replay it with: make sim SEED=%d", b.Rule, b.At, b.Text, seed, setting, seed)
		}
		seen[b.Rule] = true
	}
}
