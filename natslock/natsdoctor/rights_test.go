package natsdoctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// restricted starts a server at which user ana has these permissions, as a configuration
// has them, and user admin all.
func restricted(t *testing.T, permissions string) *testserver.Server {
	t.Helper()
	return testserver.NATS(t, fmt.Sprintf(
		`authorization { users: [{user: admin, password: word}, {user: ana, password: hidden-word, %s}] }`, permissions))
}

func permissions(publish, subscribe []string) string {
	list := func(all []string) string { return `["` + strings.Join(all, `", "`) + `"]` }
	return fmt.Sprintf("permissions: { publish: %s, subscribe: %s }", list(publish), list(subscribe))
}

func TestEachMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	publish := []string{"$JS.API.INFO", "$JS.API.STREAM.INFO.KV_team", "$JS.API.STREAM.CREATE.KV_team", "$JS.API.STREAM.MSG.GET.KV_team", "$KV.team.>", "pawl.team.>"}
	subscribe := []string{"_INBOX.>", "pawl.team.>"}
	without := func(all []string, one string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
	}
	check := func(t *testing.T, missing, allowed string) {
		t.Parallel()
		server := restricted(t, allowed)
		store := "nats://ana:hidden-word@" + server.Addr() + "/team"
		if !strings.Contains(missing, "CREATE") {
			doctortest.Held(t, "nats://admin:word@"+server.Addr()+"/team")
		}
		admin := dialTo(t, "nats://admin:word@"+server.Addr())
		before := content(t, admin)
		found := examined(t, monitored(server), store)
		mend := ""
		for _, f := range found {
			if !strings.HasPrefix(f.Check, "right to ") {
				continue
			}
			if strings.Contains(missing, f.Check+" "+f.Found[strings.LastIndexByte(f.Found, ' ')+1:]) {
				if f.Level != doctor.Broken || !strings.HasPrefix(f.Found, "denied on ") {
					t.Errorf("without %s: %+v", missing, f)
				}
				mend = f.Mend
			} else if f.Level != doctor.OK {
				t.Errorf("without %s: %+v", missing, f)
			}
		}
		if mend == "" {
			t.Fatalf("without %s:\n%s", missing, doctortest.Text(found...))
		}
		if text := doctortest.Text(found...); strings.Contains(text, "hidden-word") {
			t.Errorf("the password is shown:\n%s", text)
		}
		if after := content(t, admin); after != before {
			t.Errorf("the examination changed the store:\n%s\n%s", before, after)
		}
		doctortest.Applied("right to publish", "right to subscribe")
		mended := restricted(t, mend)
		store = "nats://ana:hidden-word@" + mended.Addr() + "/team"
		doctortest.CleanButTimes(t, examined(t, monitored(mended), store), "cluster", "sync interval")
		doctortest.Held(t, store)
		doctortest.CleanButTimes(t, examined(t, monitored(mended), store), "cluster", "sync interval")
	}
	for _, one := range publish {
		t.Run("publish "+one, func(t *testing.T) {
			check(t, "right to publish "+one, permissions(without(publish, one), subscribe))
		})
	}
	for _, one := range subscribe {
		t.Run("subscribe "+one, func(t *testing.T) {
			check(t, "right to subscribe "+one, permissions(publish, without(subscribe, one)))
		})
	}
}

func TestAWrongPasswordIsAnError(t *testing.T) {
	t.Parallel()
	server := restricted(t, permissions([]string{">"}, []string{">"}))
	for _, login := range []string{"ana:wrong-word@", ""} {
		_, err := doctor.Examine(t.Context(), fmt.Sprintf("nats://%s%s/team", login, server.Addr()))
		if !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "wrong-word") {
			t.Errorf("%q: %v", login, err)
		}
	}
}
