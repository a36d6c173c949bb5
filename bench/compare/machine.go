package compare

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// Machine describes this machine.
func Machine() string {
	return fmt.Sprintf("%s, %d processors, %s/%s, %s",
		processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo") // elsewhere only the architecture is known
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// Versions returns the modules in this program that begin with one of the prefixes,
// with their versions.
func Versions(prefixes ...string) (versions []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, module := range info.Deps {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(module.Path, p) }) {
			versions = append(versions, module.Path+" "+module.Version)
		}
	}
	return versions
}
