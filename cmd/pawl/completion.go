package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
)

// Completion blocks the user's shell: names that the store has not returned by then
// are not offered, nor more names than fit on two screens.
const (
	completeWithin = time.Second
	completeMost   = 200
)

// A completer returns candidates for the next word of a command line.
type completer = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective)

// complete registers completion of names from the store and of flag values.
func (a *app) complete(root *cobra.Command) {
	first := func(names completer) completer { // after the name, the shell's own completion
		return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return names(cmd, args, begun)
		}
	}
	only := func(names completer) completer { // after the name, nothing
		return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(cmd, args, begun)
		}
	}
	locks, leaders, both := a.names(""), a.names(claimview.Elections), a.names("", claimview.Elections)
	for verb, names := range map[string]completer{
		"run": first(locks), "elect": first(leaders), "once": first(nothing),
		"ls": only(both), "inspect": only(both), "watch": only(both),
		"force-unlock": only(locks), "serve": nothing, "migrate": nothing, "doctor": nothing, "version": nothing,
	} {
		if cmd, _, err := root.Find([]string{verb}); err == nil {
			cmd.ValidArgsFunction = names
		}
	}
	if bench, _, err := root.Find([]string{"bench"}); err == nil {
		bench.ValidArgsFunction = cobra.FixedCompletions(bench.ValidArgs, cobra.ShellCompDirectiveNoFileComp)
	}
	for _, cmd := range append(root.Commands(), root) {
		for flag, values := range map[string]completer{
			"on-lost": cobra.FixedCompletions([]cobra.Completion{
				cobra.CompletionWithDesc("kill", "TERM, then KILL before another can hold the lock"),
				cobra.CompletionWithDesc("term", "TERM alone"),
				cobra.CompletionWithDesc("ignore", "let it run on"),
			}, cobra.ShellCompDirectiveNoFileComp),
			"format": cobra.FixedCompletions([]cobra.Completion{"text", "gobench"}, cobra.ShellCompDirectiveNoFileComp),
			"also":   locks,
			"store":  cobra.FixedCompletions(schemes(), cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp),
			"wait":   nothing, "ttl": nothing, "kill-after": nothing, "keep": nothing, "for": nothing,
			"busy-code": nothing, "slots": nothing, "goroutines": nothing, "reason": nothing, "token": nothing,
			"listen": nothing, "allow-host": nothing, "class": nothing,
		} {
			if cmd.LocalNonPersistentFlags().Lookup(flag) != nil || cmd == root && root.PersistentFlags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, values) // fails only for an unknown flag
			}
		}
	}
}

// nothing is for values that only the user knows.
func nothing(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// names completes names of locks in the store below prefixes, which are not shown,
// with their holders. Names of recipes are only offered if the user typed their
// first character, as shells do with hidden files. Pressing a key must not change
// anything, print anything or create a store.
func (a *app) names(prefixes ...string) completer {
	return func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		a.err = io.Discard
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		found := make(chan cobra.Completion)
		go func() { // ends with ctx, or with the process if the store does not answer
			defer close(found)
			a.find(ctx, prefixes, begun, found)
		}()
		var all []cobra.Completion
		for {
			select {
			case c, more := <-found:
				if more {
					all = append(all, c)
				}
				if !more || len(all) == completeMost {
					slices.Sort(all)
					return all, cobra.ShellCompDirectiveNoFileComp
				}
			case <-ctx.Done():
				return all, cobra.ShellCompDirectiveNoFileComp
			}
		}
	}
}

// find sends the names of existing claims.
func (a *app) find(ctx context.Context, prefixes []string, begun string, found chan<- cobra.Completion) {
	c, _, err := a.openReadOnly(ctx, false)
	if err != nil {
		return
	}
	for _, prefix := range prefixes {
		last := ""
		for e, err := range c.List(ctx, prefix+begun) {
			if err != nil {
				return
			}
			name := strings.TrimPrefix(e.Name, prefix)
			dotted := strings.HasPrefix(name, claimview.Reserved) && !strings.HasPrefix(begun, ".")
			if e.Name == last || !completable(name) || dotted {
				continue
			}
			last = e.Name
			select {
			case found <- cobra.CompletionWithDesc(name, cut(stands(claimview.New(e, 0)), 60)):
			case <-ctx.Done():
				return
			}
		}
	}
}

// completable reports whether a name may be offered to a shell. Shells insert the
// common prefix of several candidates unquoted, and bash executes it when
// completion runs again: $(…) in a name that anybody may have stored would run a
// command. Names with hidden characters and names that look like flags are left out
// as well.
func completable(name string) bool {
	unsafe := func(r rune) bool { return r <= unicode.MaxASCII && r != ' ' && r != '=' && !shellSafe(r) }
	return name != "" && name[0] != '-' && name[0] != '=' && name == strings.TrimSpace(name) && !claimview.HasHidden(name) && !strings.ContainsFunc(name, unsafe)
}

// stands describes the claim's state in a phrase.
func stands(v claimview.Claim) string {
	switch {
	case v.State != "held":
		return "waited for by " + v.Who()
	case v.Election != "":
		return "led by " + v.Who()
	}
	return "held by " + v.Who()
}
