package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

func (a *app) forceUnlockCommand() *cobra.Command {
	var want string
	cmd := &cobra.Command{
		Use:   "force-unlock NAME",
		Short: "Break a lock, after showing whose it is",
		Long: `force-unlock takes a lock away from whoever holds it. It does not stop the holder's
command at once: that is told at its next renewal. Only what checks tokens is safe
until then.

On a terminal it asks for the name to be typed. In a script, name the holder you mean
by its token, as ls and inspect show it: --token is refused if the lock has changed
hands since.`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer leave(c)
			return a.forceUnlock(cmd.Context(), c, args[0], want)
		},
	}
	cmd.Flags().StringVar(&want, "token", "", "break it only if the holder's token is this")
	return cmd
}

func (a *app) forceUnlock(ctx context.Context, c *pawl.Client, name, want string) error {
	var fence uint64
	if want != "" {
		n, err := strconv.ParseUint(want, 10, 64)
		if err != nil {
			return usagef("--token %s: not a token", want)
		}
		fence = n >> 8
	}
	held, err := holders(ctx, c, name)
	if err != nil {
		return err
	}
	if len(held) == 0 {
		return &coded{exitFailed, fmt.Errorf("%q is not held by anybody", name)}
	}
	var victims []driver.Entry
	for _, e := range held {
		v := viewOf(e, 0)
		if want == "" || e.Token == fence {
			victims = append(victims, e)
			fmt.Fprintf(a.err, "%s is %s", plain(name), v.describe())
		}
	}
	if len(victims) == 0 {
		return &coded{exitFailed, fmt.Errorf("%q has changed hands: its token is %s, not %s; nothing was done",
			name, strconv.FormatUint(held[0].Token<<8, 10), want)}
	}
	if want == "" {
		if err := a.confirm(name); err != nil {
			return err
		}
	}
	for _, e := range victims {
		if err := a.breakIt(ctx, c, e); err != nil {
			return err
		}
	}
	return nil
}

func holders(ctx context.Context, c *pawl.Client, name string) ([]driver.Entry, error) {
	line, err := c.Line(ctx, name)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(line, func(e driver.Entry) bool { return !e.Held }), nil
}

// confirm has the name typed by a person; a script must know the token.
func (a *app) confirm(name string) error {
	if !isTerminal(a.in) {
		return usagef("not a terminal: name the holder you mean with --token")
	}
	fmt.Fprintf(a.err, "Breaking it does not stop that command at once; only what checks tokens is safe.\nType the lock's name to break it: ")
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	if line != name+"\n" {
		return &coded{exitFailed, errors.New("that is not its name; nothing was done")}
	}
	return nil
}

// breakIt evicts one claim and leaves an audit line.
func (a *app) breakIt(ctx context.Context, c *pawl.Client, e driver.Entry) error {
	err := c.Evict(ctx, e)
	if errors.Is(err, pawl.ErrNotHeld) {
		return &coded{exitFailed, fmt.Errorf("%q changed hands just now; nothing was done", e.Name)}
	}
	if err != nil {
		return err
	}
	by := "unknown"
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	host, _ := os.Hostname()
	fmt.Fprintf(a.err, "pawl: audit: time=%s by=%s@%s pid=%d broke=%q token=%s id=%s holder=%q\n",
		time.Now().UTC().Format(time.RFC3339), by, host, os.Getpid(), e.Name, strconv.FormatUint(e.Token<<8, 10), e.ID, plain(e.Note))
	return nil
}
