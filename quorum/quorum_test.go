package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/drivertest"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/quorum"
)

// nodes returns n memory engines as nodes of a quorum.
func nodes(n int) (all []quorum.Node) {
	for i := range n {
		all = append(all, quorum.Node{Name: fmt.Sprint("n", i+1), Engine: memlock.New()})
	}
	return all
}

func open(t *testing.T, nodes []quorum.Node, opts ...quorum.Option) *quorum.Engine {
	t.Helper()
	e, err := quorum.New(nodes, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestLaws(t *testing.T) {
	for _, n := range []int{3, 4, 5} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			under := map[driver.Engine][]quorum.Node{}
			drivertest.Run(t, drivertest.Harness{
				Open: func(t *testing.T) driver.Engine {
					all := nodes(n)
					e := open(t, all)
					under[e] = all
					return e
				},
				Peer:   func(t *testing.T, e driver.Engine) driver.Engine { return open(t, under[e]) },
				Around: synctest.Test,
				MinTTL: time.Second,
				MaxTTL: quorum.DefaultMaxTTL,
				Clean: func(_ *testing.T, e driver.Engine) error {
					// The nodes that were asked a millisecond later expire claims a millisecond later,
					// and notice an expiry when they are read.
					time.Sleep(time.Millisecond)
					for range e.List(context.Background(), "") {
					}
					synctest.Wait()
					for _, node := range under[e] {
						if lines, _, records := node.Engine.(*memlock.Engine).Size(); lines+records > 0 {
							return fmt.Errorf("%s: %d lines, %d records", node.Name, lines, records)
						}
					}
					return nil
				},
			})
		})
	}
}
