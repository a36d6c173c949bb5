package main

import (
	"context"
	"path"
	"strings"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
)

// The locks behind elections: of those whose name fits into the lock's, and of those
// that go by a hash.
var (
	reserved      = elections[:strings.Index(elections, "/")+1] // begins the names of all recipes' locks
	elections     = strings.TrimSuffix(electionLock("x"), "x")
	longElections = path.Dir(electionLock(strings.Repeat("x", pawl.MaxName))) + "/"
)

// electionLock is the name of the lock that the leader holds; empty if there is no such
// election.
func electionLock(name string) string { return election.New(nil, name).LockName() }

// electionOf is the election behind whose lock this is. One whose name is too long is
// only known by the lock's.
func electionOf(lock string) (name string, ok bool) {
	if strings.HasPrefix(lock, longElections) {
		return lock, true
	}
	if name, ok = strings.CutPrefix(lock, elections); !ok {
		return "", false
	}
	return name, name != ""
}

// campaign stands for election in place of taking a lock.
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
