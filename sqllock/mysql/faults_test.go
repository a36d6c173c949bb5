package mysql

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

func openClient(t testing.TB, e driver.Engine, opts ...pawl.Option) *pawl.Client {
	t.Helper()
	c := pawl.New(e, opts...)
	t.Cleanup(func() {
		c.Close()
		e.Close()
	})
	return c
}

// The user's work has all connections of the pool but the one that is kept.
func TestBeatsKeepAConnectionOfTheUsersPool(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	addr, base := database(t)
	db := openDB(t, addr, base, "")
	db.SetMaxOpenConns(1)
	e, err := New(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: ttl}); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("on a pool of one connection: %v", err)
	}
	db.SetMaxOpenConns(3)
	l, err := openClient(t, e, pawl.WithTTL(ttl)).Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		busy, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer busy.Close()
	}
	time.Sleep(ttl * 3 / 2)
	if err := l.Err(); err != nil {
		t.Errorf("lost while the pool was exhausted: %v", err)
	}
}

// The connection that is kept for beats is killed between two of them.
func TestAKilledBeatConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	addr, base := database(t)
	e, err := New(openDB(t, addr, base, ""))
	if err != nil {
		t.Fatal(err)
	}
	l, err := openClient(t, e, pawl.WithTTL(ttl)).Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	admin := openDB(t, addr, "", "")
	for begun := time.Now(); time.Since(begun) < ttl*3/2; time.Sleep(ttl / 10) {
		rows, err := admin.Query("SELECT id FROM information_schema.processlist WHERE db = ?", base)
		if err != nil {
			t.Fatal(err)
		}
		var ids []int64
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		rows.Close()
		for _, id := range ids {
			_, _ = admin.Exec("KILL ?", id) // it may have gone
		}
	}
	if err := l.Err(); err != nil {
		t.Errorf("lost: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// The server's answer to one session's beat is lost, so that it has the kept connection
// until its time is over. Another session's beat goes out on another connection, or, if
// the pool has none, returns when its own time is over.
func TestABeatIsNotStuckBehindThatOfAnotherSession(t *testing.T) {
	t.Parallel()
	const stuckFor, patience = 8 * time.Second, 2 * time.Second
	addr, base := database(t)
	link := faultproxy.New(t, addr)
	db := openDB(t, link.Addr(), base, "")
	e, err := New(db)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	beat := func(s driver.Session, c driver.Claim, within time.Duration) (driver.Standing, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		out := make([]driver.Standing, 1)
		err := s.Beat(ctx, []driver.Claim{c}, out)
		return out[0], err
	}
	enter := func(id string) (driver.Session, driver.Claim) {
		s, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		c := driver.Claim{ID: id, Try: 1, Name: id, Need: 1, Limit: 1}
		if st, err := s.Enter(t.Context(), c); err != nil || !st.Held {
			t.Fatal(st, err)
		}
		return s, c
	}
	stuck, stuckClaim := enter("stuck")
	other, claim := enter("other")
	for _, full := range []bool{false, true} {
		before := link.Swallowed()
		link.SwallowReplies(1)
		var ended sync.WaitGroup
		ended.Go(func() { _, _ = beat(stuck, stuckClaim, stuckFor) })
		await(t, "the reply that is lost", func() bool { return link.Swallowed() > before })
		if full {
			db.SetMaxOpenConns(db.Stats().InUse)
		}
		begun := time.Now()
		st, err := beat(other, claim, patience)
		if took := time.Since(begun); took > stuckFor/2 {
			t.Errorf("full pool %v: it returned after %v", full, took)
		}
		if full && err == nil || !full && (err != nil || st.Valid == 0) {
			t.Errorf("full pool %v: %+v, %v", full, st, err)
		}
		ended.Wait()
		e.store.ender.ended.Wait() // the next reply that is lost must be a beat's
		db.SetMaxOpenConns(0)
	}
}

// The server restarts, and is killed and recovers, while a lock is held.
func restarted(t *testing.T, _ string, s *testserver.Server) {
	c, rival := openClient(t, openStore(t, s.Addr()+"/pawl", nil), pawl.WithTTL(time.Minute)), openClient(t, openStore(t, s.Addr()+"/pawl", nil))
	l, err := c.Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"stopped", "killed"} {
		if how == "killed" {
			s.Kill()
		}
		s.Restart()
		for begun := time.Now(); ; {
			if _, err = rival.Mutex("m").TryLock(t.Context()); !errors.Is(err, pawl.ErrUnreachable) || time.Since(begun) > 45*time.Second {
				break
			}
		}
		if !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("a rival after the server was %s: %v", how, err)
		}
		if err := l.Err(); err != nil {
			t.Fatalf("lost after the server was %s: %v", how, err)
		}
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

// TestAPromotedReplicaForgetsButTokensRise: an asynchronous replica that did not
// receive a grant becomes the primary. Another claim is granted, with a larger
// token, and the old holder learns of it by its deadline.
func TestAPromotedReplicaForgetsButTokensRise(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	primary := prepare(t, testserver.MariaDB(t, "--log-bin", "--server-id=1"))
	link := faultproxy.New(t, primary.Addr())
	replica := testserver.MariaDBReplica(t, link.Addr())
	admin := openDB(t, replica.Addr(), "", "")
	await(t, "the tables on the replica", func() bool {
		var n int
		return admin.QueryRow("SELECT version FROM pawl.pawl_meta").Scan(&n) == nil
	})
	follower := openStore(t, replica.Addr()+"/pawl", nil)
	if _, err := follower.Open(t.Context(), driver.SessionOptions{ID: "x", TTL: time.Second}); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("a session on a replica: %v", err)
	}
	link.BlackHole(faultproxy.Both)
	old, err := openClient(t, openStore(t, primary.Addr()+"/pawl", nil), pawl.WithTTL(ttl)).Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	for _, q := range []string{"STOP SLAVE", "SET GLOBAL read_only = OFF"} {
		if _, err := admin.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	l, err := openClient(t, follower).Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l.Token() <= old.Token() {
		t.Errorf("token %d after the failover, %d before", l.Token(), old.Token())
	}
	select {
	case <-old.Context().Done():
	case <-time.After(5 * ttl):
		t.Error("the holder from before the failover did not learn of it")
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("not after 20 s: %s", what)
		}
	}
}

// Sessions in different time zones see the same expiry, also those in a zone
// whose clocks are just being set back.
func TestZonesDoNotMoveExpiries(t *testing.T) {
	t.Parallel()
	addr, base := database(t)
	zones := []string{"'%2B00:00'", "'%2B12:00'", "'-12:00'"}
	name := "zones"
	for i, zone := range zones {
		e, err := New(openDB(t, addr, base, "time_zone="+zone))
		if err != nil {
			t.Fatal(err)
		}
		c := openClient(t, e)
		if i == 0 {
			if _, err := c.Mutex(name).Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := c.Mutex(name).TryLock(t.Context()); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("zone %s: %v", zone, err)
		}
		var off int64
		if err := openDB(t, addr, base, "time_zone="+zone).QueryRow("SELECT " + micros).Scan(&off); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(time.UnixMicro(off)); d.Abs() > time.Minute {
			t.Errorf("zone %s: the clock is off by %v", zone, d)
		}
	}
}

func refusedServer(t *testing.T, _ string, s *testserver.Server) {
	open := func(e *Engine) error {
		defer e.Close()
		_, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Second})
		return err
	}
	e, err := New(openDB(t, s.Addr(), "pawl", "autocommit=0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := open(e); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "autocommit") {
		t.Errorf("without autocommit: %v", err)
	}
	onlyReads(t, s.Addr())
	admin := openDB(t, s.Addr(), "", "")
	if _, err := admin.Exec("SET GLOBAL read_only = ON"); err != nil {
		t.Fatal(err)
	}
	defer admin.Exec("SET GLOBAL read_only = OFF")
	if err := open(openStore(t, s.Addr()+"/pawl", nil)); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a server that takes no writes: %v", err)
	}
}

// onlyReads has sessions whose transactions only read: from the beginning, and from later
// on. That does not pass, so no call is repeated until its ctx ends.
func onlyReads(t *testing.T, addr string) {
	name := "transaction_read_only"
	if openDB(t, addr, "pawl", "").QueryRow("SELECT @@transaction_read_only").Scan(new(string)) != nil {
		name = "tx_read_only"
	}
	expect := func(what string, c *pawl.Client) {
		t.Helper()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := c.Mutex("m").Lock(ctx); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "transaction_read_only") {
			t.Errorf("sessions that only read, %s: %v after %v", what, err, time.Since(begun))
		}
	}
	e, err := New(openDB(t, addr, "pawl", name+"=1"))
	if err != nil {
		t.Fatal(err)
	}
	expect("from the beginning", openClient(t, e))
	db := openDB(t, addr, "pawl", "")
	if e, err = New(db); err != nil {
		t.Fatal(err)
	}
	c := openClient(t, e)
	l, err := c.Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	var left []*sql.Conn
	for db.Stats().Idle > 0 {
		conn, err := db.Conn(t.Context())
		if err == nil {
			_, err = conn.ExecContext(t.Context(), "SET SESSION TRANSACTION READ ONLY")
		}
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, conn)
	}
	for _, conn := range left {
		conn.Close()
	}
	expect("from later on", c)
}

func TestGaleraIsRefusedUnlessAllUseOneNode(t *testing.T) {
	t.Parallel()
	provider := "/usr/lib/galera/libgalera_smm.so"
	if _, err := os.Stat(provider); err != nil {
		t.Skip("optional server: galera-4 is not there")
	}
	cluster := t.TempDir()
	_ = os.Chmod(filepath.Dir(cluster), 0o755)
	_ = os.Chmod(cluster, 0o777)
	s := testserver.MariaDB(t, "--wsrep-on=ON", "--wsrep-provider="+provider, "--wsrep-cluster-address=gcomm://", "--binlog-format=ROW",
		"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:0;pc.recovery=false", "--wsrep-new-cluster", "--wsrep-node-address=127.0.0.1")
	if _, err := openDB(t, s.Addr(), "", "").Exec("CREATE DATABASE pawl"); err != nil {
		t.Fatal(err)
	}
	e := openStore(t, s.Addr()+"/pawl", nil)
	defer e.Close()
	if err := e.Migrate(t.Context()); !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "Galera") {
		t.Errorf("one node of a Galera cluster: %v", err)
	}
	allowed := openStore(t, s.Addr()+"/pawl?multi_primary=allow", nil)
	if err := allowed.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := openClient(t, allowed).Mutex("m").Lock(t.Context())
	if err == nil {
		err = l.Unlock()
	}
	if err != nil {
		t.Errorf("one node of a Galera cluster, allowed: %v", err)
	}
}

func TestErrorsSayWhatToDoAndHideThePassword(t *testing.T) {
	t.Parallel()
	addr, base := database(t)
	db := openDB(t, addr, base, "")
	for _, q := range []string{
		"CREATE USER ana@'127.0.0.1' IDENTIFIED BY 'other'", "CREATE USER bob@'127.0.0.1' IDENTIFIED BY 'hunter2'", "GRANT SELECT ON " + base + ".* TO bob@'127.0.0.1'",
		"CREATE TABLE strange_meta (one int, version int)", "INSERT INTO strange_meta VALUES (1, 1)",
		"CREATE TABLE strange_head (colour int)", "CREATE TABLE strange_claim (colour int)", "CREATE TABLE strange_record (colour int)",
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	const secret = "hunter2"
	for name, c := range map[string]struct {
		store, says string
		is          error
	}{
		"no server":      {"mysql://ana:" + secret + "@127.0.0.1:1/app?timeout=2s", "", driver.ErrUnreachable},
		"no database":    {"mysql://root@" + addr + "/nothing", "nothing", driver.ErrDenied},
		"no password":    {"mysql://ana:" + secret + "@" + addr + "/" + base, "ana", driver.ErrDenied},
		"no rights":      {"mysql://bob:" + secret + "@" + addr + "/" + base, "denied", driver.ErrDenied},
		"no tables":      {"mysql://root@" + addr + "/" + base + "?table_prefix=missing_", "pawl migrate", nil},
		"others' tables": {"mysql://root@" + addr + "/" + base + "?table_prefix=strange_", "table_prefix", nil},
		"bad tls":        {"mysql://ana:" + secret + "@" + addr + "/" + base + "?tls=" + secret, "tls", driver.ErrURL},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(c.store)
			if err != nil {
				t.Fatal(err)
			}
			e, err := openURL(t.Context(), u)
			if err == nil {
				defer e.Close()
				var session driver.Session
				if session, err = e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Second}); err == nil {
					_, err = session.Enter(t.Context(), driver.Claim{ID: "c", Try: 1, Name: "n", Need: 1, Limit: 1})
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the password shows: %v", err)
			}
		})
	}
}

// Tables that were made by an earlier program have no row that notes swept tokens.
func TestTablesOfAnEarlierProgramGetTheRowThatRecordsSweptTokens(t *testing.T) {
	t.Parallel()
	addr, base := database(t)
	db := openDB(t, addr, base, "")
	if _, err := db.Exec("DELETE FROM pawl_head"); err != nil {
		t.Fatal(err)
	}
	c := openClient(t, openStore(t, addr+"/"+base, nil))
	l, err := c.Mutex("m").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	var n int
	if err := db.QueryRow("SELECT count(*) FROM pawl_head WHERE name = ''").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d such rows, %v", n, err)
	}
}

// The first call of an engine is not Open, and has read what is known of the server.
func TestTablesOfAnotherVersionAreRefusedWhateverWasCalledBefore(t *testing.T) {
	t.Parallel()
	addr, base := database(t)
	if _, err := openDB(t, addr, base, "").Exec("UPDATE pawl_meta SET version = version + 1"); err != nil {
		t.Fatal(err)
	}
	e := openStore(t, addr+"/"+base, nil)
	defer e.Close()
	if _, err := e.Line(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Second}); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("%v", err)
	}
}
