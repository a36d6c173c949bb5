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
type nodeView struct {
	Node    string
	Holders []claimView
	Error   string
}

// nodeViews asks each node of a store that is a quorum; nil: it is none.
func nodeViews(ctx context.Context, c *pawl.Client, name string) []nodeView {
	q, ok := c.Engine().(interface {
		NodeLines(ctx context.Context, name string) []quorum.NodeLine
	})
	if !ok {
		return nil
	}
	var all []nodeView
	for _, v := range q.NodeLines(ctx, name) {
		n := nodeView{Node: v.Node}
		if v.Err != nil {
			n.Error = v.Err.Error()
		}
		for _, e := range v.Entries {
			n.Holders = append(n.Holders, viewOf(e, 0))
		}
		all = append(all, n)
	}
	return all
}

// describe tells of a node in a line.
func (n nodeView) describe() string {
	says := "free"
	switch {
	case n.Error != "":
		says = "no answer: " + n.Error
	case len(n.Holders) > 0:
		var held []string
		for _, v := range n.Holders {
			held = append(held, fmt.Sprintf("held by %s, ends in %s", beginning(v.ID), brief(duration(v.Left))))
		}
		says = strings.Join(held, "; ")
	}
	return fmt.Sprintf("  node    %s  %s", n.Node, says)
}

// beginning is enough of an id to know it by.
func beginning(id string) string {
	letters := []rune(id)
	return string(letters[:min(8, len(letters))])
}

// holding names the nodes that hold a claim.
func holding(nodes []nodeView, id string) (names []string) {
	for _, n := range nodes {
		if slices.ContainsFunc(n.Holders, func(v claimView) bool { return v.ID == id }) {
			names = append(names, n.Node)
		}
	}
	return names
}
