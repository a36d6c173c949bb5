package testserver

import "testing"

// Valkey starts a Valkey from Debian unstable, like [Redis]: without persistence,
// and with args added to its command line. See [DebianUnstable] for where it comes
// from.
func Valkey(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, valkey(DebianUnstable(t, "valkey-server"), args...))
}

func valkey(root DebianRoot, args ...string) Spec {
	spec := redis(args...)
	settings := spec.Args
	spec.Name = "valkey"
	spec.Package = "debootstrap"
	spec.Binary = File{root.Loader()}
	spec.Args = func(s *Server) []string {
		return root.Args("usr/bin/valkey-server", settings(s)...)
	}
	return spec
}
