package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// durationVar is a flag that takes a time such as 90s or 1h30m, or as flock does a
// number of seconds.
func durationVar(f *pflag.FlagSet, p *time.Duration, name, short string, value time.Duration, usage string) {
	*p = value
	f.VarP((*durationFlag)(p), name, short, usage)
}

type durationFlag time.Duration

// String returns the time, and 0 for none: what pflag does not show as a default.
func (d *durationFlag) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}

// Type returns what the help calls a value.
func (*durationFlag) Type() string { return "duration" }

// Set reads a time.
func (d *durationFlag) Set(s string) error {
	if s != "" && strings.Trim(s, "+-.0123456789") == "" {
		s += "s"
	}
	t, err := time.ParseDuration(s)
	if err != nil {
		return errors.New("not a time: write 90s, 10m or 1h30m; a number alone is seconds")
	}
	*d = durationFlag(t)
	return nil
}
