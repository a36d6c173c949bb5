package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// An app is one invocation: what it reads and writes, and what every verb shares.
type app struct {
	in       io.Reader
	out, err io.Writer
	store    string // -s
	json     bool
	code     int // what to exit with
}

// run is main with everything that a test may want to replace.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{in: in, out: out, err: errOut}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.Execute()
	if err == nil {
		return a.code
	}
	code := codeOf(err)
	if c, ok := errors.AsType[*coded](err); !ok && isUsage(err) {
		code = exitUsage
	} else if ok && c.err == nil {
		return code
	}
	a.say("%s", oneLine(err))
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Run a program under a lock that several machines share",
		Long: `pawl runs a program while it holds a lock, and shows who holds which.

  pawl run deploy -- ./deploy.sh      wait for "deploy", run, give it back
  pawl run -n report -- ./report      only if nobody else runs it now
  pawl once mail-42 -- ./send 42      unless it has succeeded before
  pawl ls                             who holds what, and who waits

Locks live in a store: by default a file of this user on this machine. Name
another with -s, PAWL_STORE, or PAWL_STORE_FILE (a file that holds the URL, for
passwords).`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.PersistentFlags().StringVarP(&a.store, "store", "s", "", "where the locks live, a `URL` (PAWL_STORE)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%w", err) })
	root.AddCommand(a.runCommand(), a.onceCommand(), a.electCommand(), a.lsCommand(), a.inspectCommand(), a.watchCommand(), a.forceUnlockCommand(), a.migrateCommand(), a.benchCommand(), a.manCommand(), a.versionCommand())
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // so that a shell nobody knows is an error
	}
	return root
}

// say writes one line for the person at the terminal, whatever is in args.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.err, "pawl: "+plain(withoutUser.ReplaceAllString(fmt.Sprintf(format, args...), "$1…@")))
}

// withoutUser finds a URL's user and password. A store's own never get this far;
// this is for one that was typed where none belongs, as after -store for --store.
var withoutUser = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"][^\s"]*@`)

// isUsage recognises what cobra itself says of a command line; it has no type.
func isUsage(err error) bool {
	for _, begin := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "invalid argument"} {
		if strings.HasPrefix(err.Error(), begin) {
			return true
		}
	}
	return false
}

// oneLine joins what errors.Join and cobra put on several lines.
func oneLine(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), "?; ", "? ") // cobra: did you mean this?
}
