package testserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A File names a program or file by candidates, of which the first that exists
// counts. A bare name is looked up in PATH and in the sbin folders, which a user's
// PATH often lacks. A name with a slash is a path or a pattern as in
// [filepath.Glob], of which the last match counts: folders named by version, newest
// last.
type File []string

// A Spec says how to find, prepare and start a server, and how to know that it is
// ready. The process must stay in the foreground and itself listen on the first
// port.
type Spec struct {
	Name    string // for messages and the name of the folder
	Package string // the Debian packages that provide it, as for apt-get install

	Binary File
	Beside []File   // other files that must exist; see [Server.Beside]
	Users  []string // if the test runs as root, run as the first of these users that exists; none: as root
	Ports  int      // number of ports; 0: one

	// Prepare prepares the folder, once, before the first start; may be nil.
	Prepare func(ctx context.Context, s *Server) error
	// Args returns the command line for the ports and the folder of s; may be nil.
	Args func(s *Server) []string
	// Env is added to PATH, HOME, TMPDIR and LANG. Nothing else is inherited: the
	// settings of the user who runs the tests must not affect their servers.
	Env []string
	// Ready returns nil once the server serves. It is called repeatedly with a
	// short ctx. If it is nil, a TCP connection is enough.
	Ready func(ctx context.Context, s *Server) error

	StopSignal os.Signal     // asks for an orderly end; nil: SIGTERM
	StartLimit time.Duration // for Prepare, and for each start until ready; 0: 60 s
	StopLimit  time.Duration // from StopSignal to SIGKILL; 0: 10 s
}

func (s Spec) withDefaults() Spec {
	if s.Ports == 0 {
		s.Ports = 1
	}
	if s.Ready == nil {
		s.Ready = accepts
	}
	if s.StopSignal == nil {
		s.StopSignal = terminate
	}
	if s.StartLimit == 0 {
		s.StartLimit = time.Minute
	}
	if s.StopLimit == 0 {
		s.StopLimit = 10 * time.Second
	}
	return s
}

// locate finds the binary and the files beside it.
func (s Spec) locate() (binary string, beside []string, err error) {
	binary, err = s.Binary.locate()
	if err != nil {
		return "", nil, s.missing(err)
	}
	for _, f := range s.Beside {
		path, err := f.locate()
		if err != nil {
			return "", nil, s.missing(err)
		}
		beside = append(beside, path)
	}
	return binary, beside, nil
}

func (s Spec) missing(err error) error {
	return fmt.Errorf("%s: %w (Debian: apt-get install %s)", s.Name, err, s.Package)
}

func (f File) locate() (string, error) {
	for _, candidate := range f {
		if !strings.ContainsRune(candidate, '/') {
			if path, err := exec.LookPath(candidate); err == nil {
				// A relative entry of PATH would be relative to the server's
				// folder.
				return filepath.Abs(path)
			}
			for _, dir := range []string{"/usr/local/sbin", "/usr/sbin"} {
				if path, err := exec.LookPath(filepath.Join(dir, candidate)); err == nil {
					return path, nil
				}
			}
			continue
		}
		if paths, err := filepath.Glob(candidate); err == nil && len(paths) > 0 {
			return paths[len(paths)-1], nil
		}
	}
	return "", fmt.Errorf("found none of %s", strings.Join(f, ", "))
}
