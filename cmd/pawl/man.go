package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-go/pawl/driver"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the manual pages into a folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := writeManual(cmd.Root(), args[0]); err != nil {
				return &exitError{exitFailed, err}
			}
			return nil
		},
	}
}

// writeManual writes the manual pages of a command and its subcommands. Cobra's own
// generator is not used because its dependencies would add a millisecond to every
// start of pawl.
func writeManual(cmd *cobra.Command, folder string) error {
	page := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	errs := []error{os.WriteFile(filepath.Join(folder, page+".1"), []byte(manual(cmd, page)), 0o644)}
	for _, below := range pages(cmd) {
		errs = append(errs, writeManual(below, folder))
	}
	return driver.Join(errs...)
}

// pages returns the commands below cmd that have a page.
func pages(cmd *cobra.Command) (all []*cobra.Command) {
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() && !below.IsAdditionalHelpTopicCommand() {
			all = append(all, below)
		}
	}
	return all
}

func manual(cmd *cobra.Command, page string) string {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"pawl %s\" \"\"\n", strings.ToUpper(page), roff(ourVersion()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(page), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	long := cmd.Long
	if long == "" {
		long = cmd.Short + "."
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", literal(long)) // its tables are aligned with spaces
	options(&b, "OPTIONS", cmd.NonInheritedFlags())
	options(&b, "OPTIONS OF EVERY COMMAND", cmd.InheritedFlags())
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n%s", literal(cmd.Example))
	}
	var others []string
	if cmd.HasParent() {
		others = append(others, cmd.Parent().CommandPath())
	}
	for _, below := range pages(cmd) {
		others = append(others, below.CommandPath())
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n")
		for i, other := range others {
			if i > 0 {
				b.WriteString(",\n")
			}
			fmt.Fprintf(&b, "\\fB%s\\fP(1)", roff(strings.ReplaceAll(other, " ", "-")))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func options(b *strings.Builder, title string, flags *pflag.FlagSet) {
	begun := false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if !begun {
			fmt.Fprintf(b, ".SH %s\n", title)
			begun = true
		}
		name := "\\fB" + roff("--"+f.Name) + "\\fP"
		if f.Shorthand != "" {
			name = "\\fB" + roff("-"+f.Shorthand) + "\\fP, " + name
		}
		what, usage := pflag.UnquoteUsage(f)
		if what != "" {
			name += " \\fI" + roff(what) + "\\fP"
		}
		fmt.Fprintf(b, ".TP\n%s\n%s", name, roff(usage))
		if zero := f.DefValue == "" || f.DefValue == "false" || f.DefValue == "0" || f.DefValue == "0s" || f.DefValue == "[]"; !zero {
			fmt.Fprintf(b, " (default %s)", roff(f.DefValue))
		}
		b.WriteString("\n")
	})
}

// literal formats text that keeps its line breaks.
func literal(text string) string {
	return ".nf\n" + roff(strings.Trim(text, "\n")) + "\n.fi\n"
}

// roff escapes special characters: backslashes, dashes that would become hyphens,
// and dots and quotes at the start of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
