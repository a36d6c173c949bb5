package main

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// An app is one invocation of pawl: its streams and what all verbs share.
type app struct {
	in       io.Reader
	out, err io.Writer
	store    string // -s
	json     bool
	code     int // exit code

	unwritten error // why standard output is incomplete
}

// run is main with replaceable streams, for tests.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{in: in, out: out, err: errOut}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetErr(errOut)
	err := root.Execute()
	if err == nil {
		err = a.unwritten // 0 would mean that all was said
	}
	if err == nil {
		return a.code
	}
	code := exitCodeOf(err)
	if c, ok := errors.AsType[*exitError](err); !ok && isUsageError(err) {
		code = exitUsage
	} else if ok && c.err == nil {
		return code
	}
	a.say("%s", redactArguments(code, oneLine(err))+a.passwordHint(err))
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Run a program under a lock that several machines share",
		Long: `pawl runs a program while it holds a lock, and shows who holds which lock.

  pawl run deploy -- ./deploy.sh      wait for "deploy", run, release it
  pawl run -n report -- ./report      only if it is not running already
  pawl once mail-42 -- ./send 42      unless that succeeded before
  pawl ls                             who holds what, and who waits

Locks live in a store: by default a file of this user on this machine. Name
another with -s, PAWL_STORE, or PAWL_STORE_FILE: a file whose only line is the URL,
for URLs with passwords; a relative sqlite: path in it is relative to the file's
folder. The command gets the same store: -s and PAWL_STORE as PAWL_STORE, without the
password; PAWL_STORE_FILE as an absolute path, so that a pawl in it has the password.`,
		Version:           ourVersion(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetOut(output{a}) // before the completion command, which keeps it
	root.PersistentFlags().StringVarP(&a.store, "store", "s", "", "where the locks live, a `URL` (PAWL_STORE)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%w", err) })
	root.AddCommand(a.runCommand(), a.onceCommand(), a.electCommand(), a.lsCommand(), a.inspectCommand(), a.watchCommand(), a.serveCommand(), a.forceUnlockCommand(), a.migrateCommand(), a.benchCommand(), a.doctorCommand(), a.verifyCommand(), a.manCommand(), a.versionCommand())
	root.Flags().Bool("version", false, "show the version") // without cobra's -v
	root.SetHelpCommand(helpCommand(root))
	a.complete(root)
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // so that an unknown shell is an error
	}
	return root
}

// helpCommand is like cobra's, except that an unknown command is an error.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("no such command: pawl %s", strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if cmd, _, err := root.Find(args); err == nil {
				for _, sub := range cmd.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// isUsageError recognises cobra's own errors about the command line, which have no
// type.
func isUsageError(err error) bool {
	for _, begin := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "invalid argument"} {
		if strings.HasPrefix(err.Error(), begin) {
			return true
		}
	}
	return false
}
