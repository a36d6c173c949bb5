package etcddoctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

// guarded starts a server with users root and ana, who has the role locks.
func guarded(t *testing.T, start func(testing.TB, ...string) *testserver.Server) (*testserver.Server, *clientv3.Client) {
	t.Helper()
	server := start(t, "--bcrypt-cost=4")
	admin := dial(t, at(server.Addr()))
	ctx := t.Context()
	_, err1 := admin.UserAdd(ctx, "root", "root-word")
	_, err2 := admin.UserGrantRole(ctx, "root", "root")
	_, err3 := admin.UserAdd(ctx, "ana", "hidden-word")
	_, err4 := admin.RoleAdd(ctx, "locks")
	_, err5 := admin.UserGrantRole(ctx, "ana", "locks")
	_, err6 := admin.AuthEnable(ctx)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	return server, dial(t, clientv3.Config{Endpoints: []string{server.Addr()}, Username: "root", Password: "root-word"})
}

func TestEachMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *testserver.Server{"3.4": testserver.Etcd, "newer": testserver.NewEtcd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, admin := guarded(t, start)
			store := "etcd://ana:hidden-word@" + server.Addr() + "/team"
			grant := func(dir string, kind clientv3.PermissionType) {
				t.Helper()
				if _, err := admin.RoleGrantPermission(t.Context(), "locks", dir, clientv3.GetPrefixRangeEnd(dir), kind); err != nil {
					t.Fatal(err)
				}
			}
			check := func(want map[string]doctor.Level) {
				t.Helper()
				before := content(t, admin)
				found := doctortest.Examine(t, store)
				for right, level := range want {
					if level == doctor.OK {
						doctortest.Expect(t, found, right, "", level)
					} else {
						doctortest.Expect(t, found, right, "", level, "denied on team/@", "etcdctl role grant-permission locks --prefix=true readwrite team/")
					}
				}
				if text := doctortest.Text(found...); strings.Contains(text, "hidden-word") {
					t.Errorf("the password is shown:\n%s", text)
				}
				if after := content(t, admin); after != before {
					t.Errorf("the examination changed the store:\n%s\n%s", before, after)
				}
			}
			rightsWere := func(readLines, writeLines, readRecords, writeRecords doctor.Level) map[string]doctor.Level {
				return map[string]doctor.Level{"right to read lines": readLines, "right to write lines": writeLines,
					"right to read records": readRecords, "right to write records": writeRecords}
			}
			const no, yes = doctor.Broken, doctor.OK
			check(rightsWere(no, no, no, no))
			grant("team/@line/", clientv3.PermissionType(clientv3.PermRead))
			check(rightsWere(yes, no, no, no))
			grant("team/@line/", clientv3.PermissionType(clientv3.PermWrite)) // in place of the first
			check(rightsWere(no, yes, no, no))
			grant("team/@record/", clientv3.PermissionType(clientv3.PermRead))
			check(rightsWere(no, yes, yes, no))
			grant("team/@record/", clientv3.PermissionType(clientv3.PermReadWrite))
			check(rightsWere(no, yes, yes, yes))
			grant("team/", clientv3.PermissionType(clientv3.PermReadWrite)) // what the mend says
			check(rightsWere(yes, yes, yes, yes))
			doctortest.Applied("right to read lines", "right to write lines", "right to read records", "right to write records")
		})
	}
}

func TestAWrongPasswordIsAnError(t *testing.T) {
	t.Parallel()
	server, _ := guarded(t, testserver.NewEtcd)
	for _, login := range []string{"ana:wrong-word@", ""} {
		_, err := doctor.Examine(t.Context(), fmt.Sprintf("etcd://%s%s/team", login, server.Addr()))
		if !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "wrong-word") {
			t.Errorf("%q: %v", login, err)
		}
	}
}
