package main

import (
	"context"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
)

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
