package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/quorum"
)

// nodeView is what one node of a quorum knows of a lock.
type nodeState struct {
	Node    string
	Holders []claimJSON
	Error   string
}

// nodeViews asks each node of a store that is a quorum; nil: it is none.
func nodeStates(ctx context.Context, c *pawl.Client, name string) []nodeState {
	q, ok := c.Engine().(interface {
		Lines(ctx context.Context, name string) []quorum.View
	})
	if !ok {
		return nil
	}
	var all []nodeState
	for _, v := range q.Lines(ctx, name) {
		n := nodeState{Node: v.Node}
		if v.Err != nil {
			n.Error = v.Err.Error()
		}
		for _, e := range v.Entries {
			n.Holders = append(n.Holders, newClaimJSON(e, 0))
		}
		all = append(all, n)
	}
	return all
}

// describe tells of a node in a line.
func (n nodeState) describe() string {
	says := "free"
	switch {
	case n.Error != "":
		says = "no answer: " + n.Error
	case len(n.Holders) > 0:
		var held []string
		for _, v := range n.Holders {
			held = append(held, fmt.Sprintf("held by %s, ends in %s", shortID(v.ID), brief(duration(v.Left))))
		}
		says = strings.Join(held, "; ")
	}
	return fmt.Sprintf("  node    %s  %s", n.Node, says)
}

// beginning is enough of an id to know it by.
func shortID(id string) string {
	letters := []rune(id)
	return string(letters[:min(8, len(letters))])
}

// holding names the nodes that hold a claim.
func holding(nodes []nodeState, id string) (names []string) {
	for _, n := range nodes {
		if slices.ContainsFunc(n.Holders, func(v claimJSON) bool { return v.ID == id }) {
			names = append(names, n.Node)
		}
	}
	return names
}
