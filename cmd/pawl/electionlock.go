package main

import (
	"context"
	"path"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
)

// The name prefixes of the locks behind elections: if the election's name fits into
// the lock's name, and if it is hashed.
var (
	reserved      = elections[:strings.Index(elections, "/")+1] // prefix of the locks of all recipes
	elections     = strings.TrimSuffix(electionLock("x"), "x")
	longElections = path.Dir(electionLock(strings.Repeat("x", pawl.MaxName))) + "/"
)

// electionLock returns the name of the lock that the leader holds; empty if the
// election's name is invalid.
func electionLock(name string) string { return election.New(nil, name).LockName() }

// electionOf returns the election that a lock belongs to. For hashed names only the
// lock's own name is known.
func electionOf(lock string) (name string, ok bool) {
	if strings.HasPrefix(lock, longElections) {
		return lock, true
	}
	if name, ok = strings.CutPrefix(lock, elections); !ok {
		return "", false
	}
	return name, name != ""
}

// campaign stands for election, which takes the lock behind it.
func (j *job) campaign(ctx context.Context, c *pawl.Client, try bool) (*pawl.Lease, error) {
	var opts []pawl.Option
	if try {
		opts = append(opts, pawl.WithWait(0))
	}
	e := election.New(c, j.name, opts...)
	j.lockName = e.LockName()
	l, err := e.Campaign(ctx, j.value)
	if err != nil {
		return nil, err
	}
	return l.Lease, nil
}
