// Command bench compares pawl with other locks and with the bare commands of the
// same servers, which it starts and stops itself.
//
//	go -C bench run .                         everything, in less than 15 minutes
//	go -C bench run . -rows alone,handoff     some rows
//
// It prints a table for people and lines for benchstat. After a run of all rows of
// a part it updates that part of RESULTS.md and its plots, unless other programs
// used too much of the machine meanwhile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/bench/compare"
	"github.com/pawl-go/pawl/bench/etcdbench"
	"github.com/pawl-go/pawl/bench/natsbench"
	"github.com/pawl-go/pawl/bench/redisbench"
	"github.com/pawl-go/pawl/bench/redlockbench"
	"github.com/pawl-go/pawl/bench/runbench"
	"github.com/pawl-go/pawl/bench/sqlbench"
	"github.com/pawl-go/pawl/bench/sqlitebench"
	"github.com/pawl-go/pawl/bench/zkbench"
	"github.com/pawl-go/pawl/internal/testserver"
)

// parts are the available measurements, by name. Each starts the servers it needs.
var parts = []struct {
	name string
	open func(t testing.TB) compare.Part
}{
	{"sqlite", sqlitebench.Part},
	{"redis", redisbench.Part},
	{"redlock", redlockbench.Part},
	{"etcd", etcdbench.Part},
	{"zookeeper", zkbench.Part},
	{"nats", natsbench.Part},
	{"postgresql", sqlbench.PostgreSQL},
	{"mariadb", sqlbench.MariaDB},
	{"mysql", sqlbench.MySQL},
	{"commands", runbench.Part},
}

// openers returns the contenders that also run as separate processes.
func openers() map[string]compare.Opener {
	all := map[string]compare.Opener{}
	for part, of := range map[string]map[string]compare.Opener{"sqlite": sqlitebench.Openers, "redis": redisbench.Openers, "etcd": etcdbench.Openers, "nats": natsbench.Openers, "postgresql": sqlbench.Openers} {
		for name, open := range of {
			all[part+"/"+name] = open
		}
	}
	return all
}

type settings struct {
	parts, rows, who string
	rounds           int
	check            bool
	results, lines   string
	profile          string
}

func main() {
	compare.Child(openers())
	var s settings
	flag.StringVar(&s.parts, "parts", "", "which servers, by comma; empty: all")
	flag.StringVar(&s.rows, "rows", "", "which rows, by comma; empty: all")
	flag.StringVar(&s.who, "who", "", "which contenders, by comma, each by the beginning of its name; empty: all")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds of each contender")
	flag.BoolVar(&s.check, "check", false, "fail if a bound is missed")
	flag.StringVar(&s.results, "results", "RESULTS.md", "the file for the tables of a whole part; empty: none")
	flag.StringVar(&s.lines, "lines", "", "the file for benchstat's lines; empty: stdout")
	flag.StringVar(&s.profile, "cpuprofile", "", "the file for a profile of this program, clients and all")
	flag.Parse()
	if flag.NArg() > 0 || s.rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A contender that hangs must not keep the program running, nor its servers,
	// which die with it.
	context.AfterFunc(ctx, func() {
		stop() // a second signal ends it at once
		time.AfterFunc(10*time.Second, func() { fatal(errors.New("somebody did not come to an end")) })
	})
	err := s.run(ctx)
	if err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

func (s settings) run(ctx context.Context) (err error) {
	lines := io.Writer(os.Stdout)
	if s.lines != "" {
		file, err := os.Create(s.lines)
		if err != nil {
			return err
		}
		defer file.Close()
		lines = file
	}
	if s.profile != "" {
		file, err := os.Create(s.profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	for _, p := range parts {
		if !among(s.parts, p.name) {
			continue
		}
		begun := time.Now()
		e := s.part(ctx, p.name, p.open, lines)
		fmt.Printf("%s: %v\n\n", p.name, time.Since(begun).Round(time.Second))
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.name, e))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return err
}

// part measures one part. If it fails, the others continue; if not even its servers
// started, the results say so.
func (s settings) part(ctx context.Context, name string, open func(testing.TB) compare.Part, lines io.Writer) error {
	var err error
	began := false
	outer := testserver.RunOutsideTest(func(t testing.TB) {
		part := open(t)
		began = true
		err = s.measure(ctx, part, lines)
	})
	err = errors.Join(outer, err)
	if !began && s.whole() && ctx.Err() == nil {
		err = errors.Join(err, compare.WriteSection(s.results, compare.Absence(name, outer, time.Now())))
	}
	return err
}

// whole reports whether the results go into the file.
func (s settings) whole() bool { return s.rows == "" && s.who == "" && s.results != "" }

// measure runs the requested rows of one part.
func (s settings) measure(ctx context.Context, part compare.Part, lines io.Writer) (err error) {
	var results []compare.Result
	for _, row := range part.Rows {
		if !among(s.rows, row.Name) {
			continue
		}
		row.Who = slices.DeleteFunc(slices.Clone(row.Who), func(c compare.Contender) bool { return !begins(s.who, c.Name) })
		r := compare.Run(ctx, part, row, s.rounds)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Table(os.Stdout)
		fmt.Printf("(%v)\n\n", r.Took.Round(100*time.Millisecond))
		r.Lines(lines, part.Name)
		results = append(results, r)
		err = errors.Join(err, faults(r, s.check))
	}
	if s.whole() {
		if slices.ContainsFunc(results, func(r compare.Result) bool { return r.Disturbed() }) {
			return errors.Join(err, errors.New("other programs used too much of the machine: these results are not kept"))
		}
		section := compare.Section(part, results, time.Now())
		err = errors.Join(err, compare.WriteSection(s.results, section), compare.WritePlots(s.results, part, results))
	}
	return err
}

// faults returns the missed bounds, if they are to be checked. A peer that fails is
// shown in the table, but is not our fault.
func faults(r compare.Result, check bool) (err error) {
	for _, v := range r.Verdicts() {
		if check && v.Missed() {
			err = errors.Join(err, fmt.Errorf("%s: %s", r.Name, v.Shortfall()))
		}
	}
	return err
}

func among(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

func begins(list, name string) bool {
	return list == "" || slices.ContainsFunc(strings.Split(list, ","), func(p string) bool { return strings.HasPrefix(name, p) })
}
