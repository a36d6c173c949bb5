package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/quorum"
)

// A nodeState is what one node of a quorum knows about a lock.
type nodeState struct {
	Node    string
	Holders []claimview.Claim
	Error   string
}

// nodeStates asks each node of a quorum; nil if the store is not a quorum.
func nodeStates(ctx context.Context, c *pawl.Client, name string) []nodeState {
	q, ok := c.Engine().(interface {
		NodeLines(ctx context.Context, name string) []quorum.NodeLine
	})
	if !ok {
		return nil
	}
	var all []nodeState
	for _, v := range q.NodeLines(ctx, name) {
		n := nodeState{Node: v.Node}
		if v.Err != nil {
			n.Error = v.Err.Error()
		}
		for _, e := range v.Entries {
			n.Holders = append(n.Holders, claimview.New(e, 0))
		}
		all = append(all, n)
	}
	return all
}

// describe describes a node in a line.
func (n nodeState) describe() string {
	says := "free"
	switch {
	case n.Error != "":
		says = "no answer: " + n.Error
	case len(n.Holders) > 0:
		var held []string
		for _, v := range n.Holders {
			held = append(held, fmt.Sprintf("held by %s, ends in %s", shortID(v.ID), claimview.Brief(v.Lease())))
		}
		says = strings.Join(held, "; ")
	}
	return fmt.Sprintf("  node    %s  %s", n.Node, says)
}

// shortID returns enough of an ID to recognise it.
func shortID(id string) string {
	letters := []rune(id)
	return string(letters[:min(8, len(letters))])
}

// holding returns the names of the nodes that hold a claim.
func holding(nodes []nodeState, id string) (names []string) {
	for _, n := range nodes {
		if slices.ContainsFunc(n.Holders, func(v claimview.Claim) bool { return v.ID == id }) {
			names = append(names, n.Node)
		}
	}
	return names
}
