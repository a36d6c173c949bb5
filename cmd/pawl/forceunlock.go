package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/driver"
)

func (a *app) forceUnlockCommand() *cobra.Command {
	var want string
	cmd := &cobra.Command{
		Use:   "force-unlock NAME",
		Short: "Break a lock, after showing whose it is",
		Long: `force-unlock takes a lock away from its holder. It does not stop the holder's command
at once: the holder notices at its next renewal. Until then only systems that check
tokens are safe.

On a terminal you have to type the name. In a script, give the holder's token as shown
by ls and inspect: --token fails if the lock has changed hands since.`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.forceUnlock(cmd.Context(), args[0], want)
		},
	}
	cmd.Flags().StringVar(&want, "token", "", "break it only if the holder's token is this")
	return cmd
}

func (a *app) forceUnlock(ctx context.Context, name, want string) error {
	var fence uint64
	if want != "" {
		n, err := strconv.ParseUint(want, 10, 64)
		if err != nil {
			return usagef("--token %s: not a token", want)
		}
		fence = n >> 8
	}
	c, st, err := a.openReadOnly(ctx, false)
	if err != nil {
		return err
	}
	defer closeClient(c)
	held, err := a.heldBy(ctx, c, st, name)
	if err != nil {
		return err
	}
	var victims []driver.Entry
	for _, e := range held {
		if want != "" && e.Fence != fence {
			continue
		}
		victims = append(victims, e)
		for i, line := range describeClaim(claimview.New(e, 0)) {
			if i == 0 {
				line = claimview.ShownName(name) + " is " + line
			}
			a.show("%s\n", line)
		}
	}
	if len(victims) == 0 {
		return &exitError{exitFailed, fmt.Errorf("%q has changed hands: its token is %s, not %s; nothing was done",
			name, strconv.FormatUint(held[0].Fence<<8, 10), want)}
	}
	if want == "" {
		if err := a.confirm(name); err != nil {
			return err
		}
	}
	change, err := a.openForWriting(ctx, c, st)
	if err != nil {
		return err
	}
	defer closeClient(change)
	for _, e := range victims {
		if err := a.evict(ctx, change, e); err != nil {
			return err
		}
	}
	return nil
}

// openForWriting returns a client that may change the store that seen reads. SQLite
// files were opened read-only and are opened again; for other stores seen itself is
// returned.
func (a *app) openForWriting(ctx context.Context, seen *pawl.Client, s store) (*pawl.Client, error) {
	if u, err := driver.ParseURL(s.url); err != nil || u.Scheme != "sqlite" {
		return seen, nil
	}
	c, _, err := a.openChosen(ctx)
	return c, err
}

// heldBy returns the holders, at least one, or an error.
func (a *app) heldBy(ctx context.Context, c *pawl.Client, s store, name string) ([]driver.Entry, error) {
	held, err := holders(ctx, c, name)
	if err != nil || len(held) > 0 {
		return held, err
	}
	hint := ""
	if lock := claimview.ElectionLock(name); lock != "" {
		if leaders, err := holders(ctx, c, lock); err == nil && len(leaders) > 0 {
			hint = "; the leader of the election is broken with: " + a.pawlCommand(s) + " force-unlock " + operand(lock)
		}
	}
	return nil, &exitError{exitFailed, fmt.Errorf("%q is not held by anybody%s", name, hint)}
}

func holders(ctx context.Context, c *pawl.Client, name string) ([]driver.Entry, error) {
	line, err := c.Line(ctx, name)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(line, func(e driver.Entry) bool { return !e.Held }), nil
}

// confirm makes a person type the name. A script must use --token.
func (a *app) confirm(name string) error {
	if !isTerminal(a.in) {
		return usagef("not a terminal: name the holder you mean with --token")
	}
	a.show("Breaking it does not stop that command at once; only what checks tokens is safe.\nType the lock's name to break it: ")
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	if !confirms(line, name) {
		return &exitError{exitFailed, errors.New("that is not its name; nothing was done")}
	}
	return nil
}

// confirms reports whether line is the name or the name as it was shown: hidden
// characters can hardly be typed. On Windows a line ends in \r\n.
func confirms(line, name string) bool {
	typed, whole := strings.CutSuffix(line, "\n")
	typed = strings.TrimSuffix(typed, "\r")
	return whole && (typed == name || typed == claimview.ShownName(name))
}

// evict evicts one claim and prints an audit line.
func (a *app) evict(ctx context.Context, c *pawl.Client, e driver.Entry) error {
	err := c.Evict(ctx, e)
	if errors.Is(err, pawl.ErrNotHeld) {
		return &exitError{exitFailed, fmt.Errorf("%q changed hands just now; nothing was done", e.Name)}
	}
	if err != nil {
		return err
	}
	a.audit("", e)
	return nil
}
