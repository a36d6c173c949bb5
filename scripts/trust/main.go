// Command trust runs what shows that pawl can be trusted, and writes docs/trust.md from it.
// Results are kept in docs/trust.json, so that each part can be run by itself.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// results are what docs/trust.md is written from.
type results struct {
	Verify   part[[]verified]
	SelfTest part[selfTest]
	Sim      part[simulated]
	Mutants  part[simulated]
}

// A part is the result of one part, and where it comes from.
type part[T any] struct {
	Date    string // empty: it was never run
	Machine string
	Command string
	Result  T
}

func ran[T any](command string, result T) part[T] {
	return part[T]{
		Date:    time.Now().UTC().Format(time.DateOnly),
		Machine: fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
		Command: command,
		Result:  result,
	}
}

// A trust is one run of this command.
type trust struct {
	results
	length time.Duration // of verify, on each store
	sim    time.Duration
	stores string // those whose name contains it
	folder string // for programs
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "trust:", err)
		os.Exit(1)
	}
}

func run() error {
	t := &trust{}
	parts := flag.String("parts", "verify,selftest,sim,mutants", "what to run, by commas; empty: only write the page")
	flag.DurationVar(&t.length, "for", 2*time.Minute, "how long verify runs on each store")
	flag.DurationVar(&t.sim, "sim", 30*time.Minute, "how long the simulation runs")
	flag.StringVar(&t.stores, "stores", "", "verify only stores whose name contains this")
	flag.Parse()
	const data, page = "docs/trust.json", "docs/trust.md"
	if b, err := os.ReadFile(data); err == nil {
		if err := json.Unmarshal(b, &t.results); err != nil {
			return err
		}
	}
	var err error
	if t.folder, err = os.MkdirTemp("", "pawl-trust-"); err != nil {
		return err
	}
	defer os.RemoveAll(t.folder)
	for _, p := range strings.FieldsFunc(*parts, func(r rune) bool { return r == ',' }) {
		run, known := map[string]func() error{"verify": t.runVerify, "selftest": t.runSelfTest, "sim": t.runSim, "mutants": t.runMutants}[p]
		if !known {
			return fmt.Errorf("-parts %s: there is none of this name", p)
		}
		if err := run(); err != nil {
			return err
		}
		if err := t.save(data, page); err != nil {
			return err
		}
	}
	return t.save(data, page)
}

// save writes the results, and the page from them.
func (t *trust) save(data, page string) error {
	b, err := json.MarshalIndent(t.results, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(data, append(b, '\n'), 0o644); err != nil {
		return err
	}
	text, err := t.page()
	if err != nil {
		return err
	}
	return os.WriteFile(page, text, 0o644)
}

// pawl builds the command, once.
func (t *trust) pawl() (string, error) {
	path := filepath.Join(t.folder, "pawl")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	build := exec.Command("go", "build", "-o", path, "./cmd/pawl")
	build.Stderr = os.Stderr
	return path, build.Run()
}

// merge returns the old results with the new ones in place of those with the same name.
func merge[T any](old, new []T, name func(T) string) []T {
	for _, n := range new {
		if i := slices.IndexFunc(old, func(o T) bool { return name(o) == name(n) }); i >= 0 {
			old[i] = n
			continue
		}
		old = append(old, n)
	}
	return old
}
