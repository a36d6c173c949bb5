package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set in release builds.
var version = ""

func (a *app) versionCommand() *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version; with -v also where locks live",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := a.print("pawl %s\n", ourVersion()); err != nil || !verbose {
				return err
			}
			st, err := a.findStore()
			if err != nil {
				return err
			}
			return a.print("go      %s %s/%s\nstore   %s (from %s)\nschemes %s\n",
				runtime.Version(), runtime.GOOS, runtime.GOARCH, st.shown, st.from, strings.Join(schemes(), " "))
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "also the Go version, the store in use and the known schemes")
	return cmd
}

func ourVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
