package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/driver"
)

// A migrator is an engine that keeps its locks in tables which somebody must
// make.
type migrator interface {
	Migrate(ctx context.Context) error
	Schema() string
}

func (a *app) migrateCommand() *cobra.Command {
	var print bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables that a database store needs",
		Long: `migrate makes pawl's tables in the database that -s names, where they are missing.
It may be run by many at once, and again and again. It needs the right to create
tables, which nothing else here does: run it once as one who has it.

With --print it only shows the statements, for those who want to run them by
themselves, and does not connect.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.migrate(cmd.Context(), print) },
	}
	cmd.Flags().BoolVar(&print, "print", false, "show the statements and run none")
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
	if q := u.Query(); q.Has("ttl") { // the client's, not the engine's
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

// refused gives the error of a store its exit code.
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
