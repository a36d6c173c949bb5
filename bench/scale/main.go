// Command scale measures how many held leases, waiting claims and waiting clients each
// store bears over links of several lengths, with nothing wrong. It starts the servers
// itself, and writes docs/scale.json and, from it, docs/scale.md.
//
//	go -C bench run ./scale -stores redis,etcd -rtt 1,50 -kinds held,clients
//
// A result is written when its cell is done; a cell that is there already is not measured
// again. The program uses nothing of pawl but what users have, so that it can be copied
// into an older tree of this repository and be run there: -before takes that result.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A command is one run of this program.
type command struct {
	stores, kinds []string
	trips         []int
	ttl, limit    time.Duration
	names, most   int
	again         bool
	out           string // without .json and .md
}

func main() {
	child()
	var c command
	stores := flag.String("stores", "", "which stores, by comma; empty: all")
	trips := flag.String("rtt", "1,20,50", "round trips in milliseconds, by comma")
	kinds := flag.String("kinds", "", "what to measure, by comma, of "+strings.Join(allKinds(), ", ")+"; empty: all")
	flag.DurationVar(&c.ttl, "ttl", 10*time.Second, "TTL of every lease")
	flag.DurationVar(&c.limit, "limit", 2*time.Minute, "how long one cell may take; those of once and records may take five times as long")
	flag.IntVar(&c.names, "names", 100_000, "how many names are used once")
	flag.IntVar(&c.most, "most", 0, "the most leases, claims or clients that are tried; 0: 30 000, and 1 000 clients")
	flag.BoolVar(&c.again, "again", false, "measure also what has a result")
	flag.StringVar(&c.out, "out", "../docs/scale", "where to write, without .json and .md")
	before := flag.String("before", "", "the JSON of an older tree, to be shown beside this one's")
	flag.Parse()
	err := c.parse(*stores, *trips, *kinds)
	if flag.NArg() > 0 || err != nil {
		fmt.Fprintln(os.Stderr, "scale:", errors.Join(err, errors.New("see -help")))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx, *before); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// parse reads the lists.
func (c *command) parse(list, trips, kinds string) error {
	known := func(all []string, list, what string) ([]string, error) {
		if list == "" {
			return all, nil
		}
		some := strings.Split(list, ",")
		for _, s := range some {
			if !slices.Contains(all, s) {
				return nil, fmt.Errorf("%s %q: there are %s", what, s, strings.Join(all, ", "))
			}
		}
		return some, nil
	}
	var err [2]error
	c.stores, err[0] = known(storeNames(), list, "store")
	c.kinds, err[1] = known(allKinds(), kinds, "kind")
	for _, s := range strings.Split(trips, ",") {
		ms, err := strconv.Atoi(s)
		if err != nil || ms < 0 {
			return fmt.Errorf("round trip %q: not a number of milliseconds", s)
		}
		c.trips = append(c.trips, ms)
	}
	if c.most != 0 && c.most < 100 {
		return fmt.Errorf("-most %d: at least 100", c.most)
	}
	return errors.Join(err[:]...)
}

// run measures every cell that is asked for and not there yet.
func (c *command) run(ctx context.Context, before string) error {
	kept, err := load(c.out + ".json")
	if err != nil {
		return err
	}
	if before != "" {
		old, err := load(before)
		if err == nil && len(old.Now) == 0 {
			err = errors.New("it has no results")
		}
		if err != nil {
			return fmt.Errorf("-before %s: %w", before, err)
		}
		kept.Before = old.Now
	}
	var failed []error
	ready := map[string]error{}
	for _, cell := range c.cells() {
		if ctx.Err() != nil {
			return errors.Join(append(failed, ctx.Err())...)
		}
		if kept.has(cell) && !c.again {
			continue
		}
		err, asked := ready[cell.Store]
		if !asked {
			if err = c.ready(ctx, cell.Store); err != nil {
				err = fmt.Errorf("%s cannot be started: %w", cell.Store, err)
				failed = append(failed, err)
				fmt.Println(err)
			}
			ready[cell.Store] = err
		}
		if err != nil {
			continue
		}
		begun := time.Now()
		result, err := c.measure(ctx, cell, kept.longer(cell))
		if err != nil {
			failed = append(failed, fmt.Errorf("%v: %w", cell, err))
			fmt.Printf("%-40v FAILED: %v\n", cell, err)
			continue
		}
		result.Date = begun.UTC().Format(time.DateOnly)
		result.Machine = fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
		result.TTL, result.Limit = c.ttl.String(), c.limit.String()
		fmt.Printf("%-40v %-18s %4.0f s  %s\n", cell, result.Borne(), time.Since(begun).Seconds(), result.Why())
		kept.add(result)
		if err := kept.save(c.out); err != nil {
			return err
		}
	}
	return errors.Join(append(failed, kept.save(c.out))...)
}

// cells returns what is asked for, those of one store behind each other and the longest
// link first. What no link delays is measured once, and names that are used once over the
// shortest link only.
func (c *command) cells() (all []cell) {
	for _, s := range c.stores {
		for _, kind := range c.kinds {
			trips := slices.Sorted(slices.Values(c.trips))
			slices.Reverse(trips)
			switch {
			case storeNamed(s).local:
				trips = []int{noLink}
			case names(kind):
				trips = []int{slices.Min(trips)}
			}
			for _, ms := range trips {
				all = append(all, cell{Store: s, Kind: kind, RTT: ms})
			}
		}
	}
	return all
}
