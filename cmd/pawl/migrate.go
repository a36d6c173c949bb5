package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/driver"
)

// A migrator is an engine whose tables have to be created first.
type migrator interface {
	Migrate(ctx context.Context) error
	Schema() string
}

func (a *app) migrateCommand() *cobra.Command {
	var print bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables that a database store needs",
		Long: `migrate creates pawl's missing tables in the database that -s names. It may be run
concurrently and repeatedly. It needs the right to create tables, which nothing else
in pawl needs: run it once as a user who has that right.

With --print it only prints the statements, so that you can run them yourself, and
does not connect.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.migrate(cmd.Context(), print) },
	}
	cmd.Flags().BoolVar(&print, "print", false, "print the statements and do not run them")
	return cmd
}

func (a *app) migrate(ctx context.Context, print bool) error {
	s, err := a.findOrCreateStore()
	if err != nil {
		return err
	}
	u, err := driver.ParseURL(s.url)
	if err != nil {
		return &exitError{exitConfig, fmt.Errorf("store %s: %w", s.shown, err)}
	}
	if q := u.Query(); q.Has("ttl") { // an option of the client, not of the engine
		q.Del("ttl")
		u.RawQuery = q.Encode()
	}
	open, _ := driver.Lookup(u.Scheme)
	if s.from == "-s" && s.secret() && !print {
		a.say("warning: the password in -s shows in ps; use PAWL_STORE or PAWL_STORE_FILE")
	}
	ctx, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	e, err := open(ctx, u)
	if err != nil {
		return a.storeError(s, err)
	}
	defer e.Close()
	m, ok := e.(migrator)
	if !ok {
		a.say("store %s makes what it needs by itself: nothing to do", s.shown)
		return nil
	}
	if print {
		for line := range strings.Lines(strings.TrimSpace(m.Schema()) + "\n") {
			if err := a.print("%s\n", strings.TrimSuffix(line, "\n")); err != nil {
				return err
			}
		}
		return nil
	}
	if err := m.Migrate(ctx); err != nil {
		return a.storeError(s, err)
	}
	return a.print("the tables are there\n")
}

// storeError adds the store and the exit code to an error.
func (a *app) storeError(s store, err error) error {
	err = fmt.Errorf("store %s: %w", s.shown, err)
	switch {
	case errors.Is(err, driver.ErrURL):
		return &exitError{exitConfig, err}
	case errors.Is(err, driver.ErrDenied), errors.Is(err, driver.ErrUnsupported):
		return &exitError{exitDenied, err}
	}
	return &exitError{exitUnavailable, err}
}
