package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

// A shell that asks for names waits, and its user with it: what the store has not said
// by then is not offered, nor more names than fit on a screen or two.
const (
	completeWithin = time.Second
	completeMost   = 200
)

// A completer offers what may come next on a command line.
type completer = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective)

// complete has the shells offer names from the store, and the values that flags take.
func (a *app) complete(root *cobra.Command) {
	first := func(names completer) completer { // and after the name whatever the shell itself offers
		return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return names(cmd, args, begun)
		}
	}
	only := func(names completer) completer { // and after the name nothing
		return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(cmd, args, begun)
		}
	}
	locks, leaders, both := a.names(""), a.names(elections), a.names("", elections)
	for verb, names := range map[string]completer{
		"run": first(locks), "elect": first(leaders), "once": first(nothing),
		"ls": only(both), "inspect": only(both), "watch": only(both),
		"force-unlock": only(locks), "migrate": nothing, "version": nothing,
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
		} {
			if cmd.LocalNonPersistentFlags().Lookup(flag) != nil || cmd == root && root.PersistentFlags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, values) // fails only for a flag that there is not
			}
		}
	}
}

// nothing is for what only the user knows.
func nothing(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// names offers those of locks in the store, below prefixes that are not shown, with who
// holds them. Those of recipes are offered as shells do with files that begin with a
// dot: to whoever types that. It changes nothing, says nothing and makes no store: whoever presses a
// key has not asked for any of that.
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

// find sends the names that there are.
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
			dotted := strings.HasPrefix(name, reserved) && !strings.HasPrefix(begun, ".")
			if e.Name == last || !completable(name) || dotted {
				continue
			}
			last = e.Name
			select {
			case found <- cobra.CompletionWithDesc(name, cut(newClaimJSON(e, 0).stands(), 60)):
			case <-ctx.Done():
				return
			}
		}
	}
}

// completable reports whether a shell may be offered a name. A shell puts what several
// have in common on the line without quotes, and bash runs that when it is asked again:
// $(…) in a name that anybody wrote would be a command of his. One that hides something
// or would be taken for a flag is not what was meant either.
func completable(name string) bool {
	unsafe := func(r rune) bool { return r <= unicode.MaxASCII && r != ' ' && r != '=' && !shellSafe(r) }
	return name != "" && name[0] != '-' && name[0] != '=' && name == strings.TrimSpace(name) && !hasHidden(name) && !strings.ContainsFunc(name, unsafe)
}

// stands says in a phrase what a claim does.
func (v claimJSON) stands() string {
	switch {
	case v.State != "held":
		return "waited for by " + v.who()
	case v.Election != "":
		return "led by " + v.who()
	}
	return "held by " + v.who()
}
