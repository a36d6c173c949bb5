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

// A File names a program or file by candidates, the first that is there counts. A
// bare name is looked up in PATH and in the sbin folders, which a user's PATH often
// lacks. A name with a slash is a path and may be a pattern as of [filepath.Glob],
// of whose matches the last is taken: folders named by version, newest last.
type File []string

// A Spec says how a server is found, prepared, started and known to be ready. The
// process that is started must stay in the foreground and itself listen on the
// first port.
type Spec struct {
	Name    string // for messages and the name of the folder
	Package string // the Debian packages that bring it, as apt-get install takes them

	Binary File
	Beside []File   // what else must be there; see [Server.Beside]
	Users  []string // when the test runs as root, run as the first of these that exists; none: as root
	Ports  int      // how many it needs; 0: one

	// Prepare makes the folder ready, once, before the first start. Nil: nothing to do.
	Prepare func(ctx context.Context, s *Server) error
	// Args returns the arguments for the ports and the folder of s. Nil: none.
	Args func(s *Server) []string
	// Env is what the server finds in its environment beside PATH, HOME, TMPDIR and
	// LANG. Nothing else is inherited: the settings of whoever runs the tests must
	// not change their servers.
	Env []string
	// Ready returns nil once the server serves. It is asked again and again, with
	// little time each; ctx ends when that is over. Nil: a TCP connection is enough.
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

// locate finds the binary and what must be beside it.
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
				// A relative entry of PATH would be looked for in the server's folder.
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
