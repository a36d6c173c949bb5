package redisdoctor_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// A sentinel that refuses an answer, or gives none, says neither that all is well nor that
// it is not.
func TestWhatASentinelDoesNotTellIsAWarning(t *testing.T) {
	t.Parallel()
	c, store := sentinels(t)
	for _, n := range append(c.Nodes, c.Sentinels...) {
		newConsole(t, n.Addr()).do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
	}
	login := strings.Replace(store, "://", "://app:secret@", 1) + "&sentinel-auth=yes"
	clean(t, login)
	for _, test := range []struct {
		right string
		want
	}{
		{"sentinel|ckquorum", want{"failover", c.Sentinels[0].Addr(), doctor.Warning, "cannot ask: redislock: ", "is not known", "ACL SETUSER app +sentinel|ckquorum"}},
		{"sentinel|slaves", want{"replica list", c.Sentinels[0].Addr(), doctor.Warning, "cannot read it: redislock: ", "may become the master were not checked", "ACL SETUSER app +sentinel|slaves"}},
		{"sentinel|master", want{"sentinel", c.Sentinels[0].Addr(), doctor.Warning, "NOPERM", "was not checked", "ACL SETUSER app +sentinel|master"}},
	} {
		at := newConsole(t, c.Sentinels[0].Addr())
		at.do("ACL", "SETUSER", "app", "-"+test.right)
		f := see(t, doctortest.Examine(t, login), test.want)
		if !strings.Contains(f.Found, "NOPERM") {
			t.Errorf("%+v", f)
		}
		_, command, _ := strings.Cut(f.Mend, " ACL ") // after redis-cli and the address
		at.do(append([]string{"ACL"}, strings.Fields(command)...)...)
		clean(t, login)
		doctortest.Applied(f.Check)
	}
}

func TestASentinelThatFallsSilentIsAWarning(t *testing.T) {
	t.Parallel()
	c, store := sentinels(t)
	p := faultproxy.New(t, c.Sentinels[1].Addr())
	store = strings.Replace(store, c.Sentinels[1].Addr(), p.Addr(), 1)
	asks := faultproxy.Matching(func(request []byte) bool { return bytes.Contains(request, []byte("CKQUORUM")) })
	for name, options := range map[string][]faultproxy.SwallowOption{"silent": {asks}, "cut": {asks, faultproxy.ThenCut()}} {
		clean(t, store)
		before := p.Swallowed()
		p.SwallowReplies(1000, options...)
		see(t, doctortest.Examine(t, store), want{"failover", p.Addr(), doctor.Warning, "cannot ask: redislock: store unreachable", "is not known", "SENTINEL CKQUORUM pawl"})
		if p.Swallowed() == before {
			t.Errorf("%s: nothing was swallowed", name)
		}
		p.Heal()
	}
}
