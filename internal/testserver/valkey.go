package testserver

import "testing"

// Valkey starts a Valkey from Debian unstable, like [Redis]: without persistence,
// and with args added to its command line. See [DebianUnstable] for where it comes
// from.
func Valkey(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, valkey(DebianUnstable(t, "valkey-server"), args...))
}

// ValkeySentinel starts a sentinel of Valkey that monitors a master.
func ValkeySentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	return Start(t, byValkey(DebianUnstable(t, "valkey-server"), sentinel(master)))
}

func valkey(root DebianRoot, args ...string) Spec { return byValkey(root, redis(args...)) }

// byValkey makes a server of Redis one of Valkey.
func byValkey(root DebianRoot, spec Spec) Spec {
	settings := spec.Args
	spec.Name = "valkey"
	spec.Package = "debootstrap"
	spec.Binary = File{root.Loader()}
	spec.Args = func(s *Server) []string {
		return root.Args("usr/bin/valkey-server", settings(s)...)
	}
	return spec
}
