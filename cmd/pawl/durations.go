package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// durationVar defines a flag that takes a duration such as 90s or 1h30m, or a
// number of seconds, as flock does.
func durationVar(f *pflag.FlagSet, p *time.Duration, name, short string, value time.Duration, usage string) {
	*p = value
	f.VarP((*durationFlag)(p), name, short, usage)
}

type durationFlag time.Duration

// String returns the duration, or "0" for zero, which pflag does not show as a
// default.
func (d *durationFlag) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}

// Type returns the name of the value in the help.
func (*durationFlag) Type() string { return "duration" }

// Set parses a duration.
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
