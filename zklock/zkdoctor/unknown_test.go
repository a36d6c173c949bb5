package zkdoctor

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// syncRequest is how a request to catch up goes on after its length and number.
var syncRequest = []byte{0, 0, 0, 9, 0, 0, 0, 1, '/'}

func TestServersThatCannotBeComparedAreWarnedOf(t *testing.T) {
	t.Parallel()
	e := testserver.ZooKeepers(t, 3, nil, "forceSync=yes")
	proxy := faultproxy.New(t, e.Addrs()[2])
	store := storeOf(e.Addrs()[0], e.Addrs()[1], proxy.Addr())
	doctortest.Expect(t, doctortest.Examine(t, store), "ensemble", "", doctor.OK)
	proxy.SwallowReplies(1000, faultproxy.Matching(func(request []byte) bool { return bytes.Contains(request, syncRequest) }))
	found := doctortest.Examine(t, store)
	f := doctortest.Expect(t, found, "ensemble", "", doctor.Warning, "cannot compare "+e.Addrs()[0]+" and "+proxy.Addr(), "two clients can hold the same lock", "PAWL_STORE=zk://"+e.Addrs()[0])
	doctortest.CleanButTimes(t, found, "ensemble")
	doctortest.Mended(t, found, doctortest.Examine(t, strings.TrimPrefix(f.Mend, "PAWL_STORE=")), "ensemble", "", "endpoints", "followers") // of one server
	if proxy.Swallowed() == 0 {
		t.Error("nothing was swallowed")
	}
}

// The session is at one server and the counters are those of another, which writes nothing.
func TestAServerThatWritesNothingIsNotCalledGood(t *testing.T) {
	t.Parallel()
	e := &ensemble{root: "/team"}
	e.settings.Servers = []string{testserver.ZooKeeper(t, "forceSync=yes").Addr(), testserver.ZooKeeper(t, "forceSync=yes").Addr()}
	e.ask(t.Context())
	defer e.close()
	s := *e.servers[0]
	s.address = e.servers[1].address
	doctortest.Expect(t, []doctor.Finding{forceSync(t.Context(), &s)}, "forcesync", "", doctor.Warning, "not measured", "is not known", "zkServer.sh status")
	doctortest.Expect(t, []doctor.Finding{forceSync(t.Context(), e.servers[0])}, "forcesync", "", doctor.OK)
}

// Servers before 3.6 do not tell their number by mntr.
func TestFollowersOfAnUnknownNumberAreNotCalledGood(t *testing.T) {
	t.Parallel()
	e := testserver.ZooKeepers(t, 3, nil, "4lw.commands.whitelist=srvr,mntr")
	lead := testserver.ZooKeeper(t, "4lw.commands.whitelist=srvr,mntr") // standalone: it counts no followers
	x := &ensemble{root: "/team"}
	x.settings.Servers = []string{e.Addrs()[e.Leader()], lead.Addr()}
	x.ask(t.Context())
	defer x.close()
	doctortest.Expect(t, []doctor.Finding{followers(t.Context(), x)}, "followers", "", doctor.OK)
	x.servers[0].address = lead.Addr()
	doctortest.Expect(t, []doctor.Finding{followers(t.Context(), x)}, "followers", "", doctor.Warning, "does not answer conf", "is not known")
}
