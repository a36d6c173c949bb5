package postgresdoctor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/examtest"
)

// What one statement in the database, or for its user, sets up wrong, and the mend sets
// right again. DB and USER stand for their names.
func TestASettingThatIsWrongIsFoundAndMended(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		wrong, check   string
		level          doctor.Level
		found, meaning string
	}{
		{"ALTER TABLE pawl_head SET UNLOGGED", "tables", doctor.Broken, "pawl_head is unlogged", "A crash of the server empties the table"},
		{"ALTER ROLE USER SET default_transaction_read_only = on", "role", doctor.Broken, "default_transaction_read_only is on", "No lock can be taken"},
		{"ALTER DATABASE DB SET synchronous_commit = off", "synchronous commit", doctor.Warning, "synchronous_commit is off", "guarded transaction"},
		{"ALTER ROLE USER SET statement_timeout = '200ms'", "timeouts", doctor.Warning, "statement_timeout is 200ms", "cut off and sent again"},
		{"ALTER DATABASE DB SET lock_timeout = '20ms'", "timeouts", doctor.Warning, "lock_timeout is 20ms", "cut off and sent again"},
		{"ALTER DATABASE DB SET idle_in_transaction_session_timeout = '100ms'", "timeouts", doctor.Warning, "idle_in_transaction_session_timeout is 100ms", "guarded transaction"},
		{"ALTER ROLE USER SET idle_session_timeout = '10s'", "timeouts", doctor.Warning, "idle_session_timeout is 10s", "waiters poll"},
		{"ALTER ROLE USER SET tcp_user_timeout = '300ms'", "timeouts", doctor.Warning, "tcp_user_timeout is 300ms", "pause of the network"},
		{"ALTER DATABASE DB SET default_transaction_isolation = 'serializable'", "isolation level", doctor.Warning, "serializable", "first statement"},
		{"ALTER ROLE USER CONNECTION LIMIT 5", "connections", doctor.Warning, "1 of 5 connections of user", "too few"},
		{"ALTER DATABASE DB CONNECTION LIMIT 1", "connections", doctor.Broken, "1 of 1 connections of database", "no connection"},
		{"ALTER TABLE pawl_claim SET (autovacuum_enabled = off)", "dead rows", doctor.Warning, "autovacuum is off for pawl_claim", "slower and slower"},
		{"ALTER TABLE pawl_head ENABLE ROW LEVEL SECURITY", "rights", doctor.Broken, "row security is active on pawl_head", "two clients then hold"},
	} {
		t.Run(test.wrong, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.exec(p.named(test.wrong))
			p.awaitNoClient()
			mend := examtest.Expect(t, p.store(), test.check, test.level, test.found, test.meaning)
			p.mended(p.store(), test.check, mend)
		})
	}
}

func TestTablesThatAreMissingOrNotPawlsAreFound(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.exec("UPDATE pawl_meta SET schema = 0")
	examtest.Expect(t, p.store(), "tables", doctor.Broken, "of version 0, this program knows version 1", "refused")
	p.exec("UPDATE pawl_meta SET schema = 7")
	examtest.Expect(t, p.store(), "tables", doctor.Broken, "of version 7", "refused")
	p.exec("DROP TABLE pawl_meta, pawl_claim")
	if mend := examtest.Expect(t, p.store(), "tables", doctor.Broken, "there is no pawl_meta, pawl_claim", "No lock"); mend != "pawl migrate -s URL" {
		t.Error(mend)
	}
	examtest.Migrate(t, p.url("postgres", ""))
	examtest.Expect(t, p.url("postgres", ""), "tables", doctor.OK, "version 1", "")
	p.exec("DROP TABLE pawl_record", "CREATE TABLE pawl_record (song text)")
	examtest.Expect(t, p.store(), "tables", doctor.Broken, "pawl_record is there and not pawl's", "another program")
	p.exec("CREATE SCHEMA locks")
	other := p.url("postgres", "&table_prefix=locks.pawl_")
	examtest.Expect(t, other, "tables", doctor.Broken, "there is no locks.pawl_meta", "No lock")
	examtest.Migrate(t, other)
	examtest.Clean(t, other)
}

func TestEachMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	examtest.Expect(t, p.store(), "rights", doctor.OK, "may read and change", "")
	for _, table := range []string{"pawl_meta", "pawl_head", "pawl_claim", "pawl_record"} {
		for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			if table == "pawl_meta" && right != "SELECT" {
				continue
			}
			p.exec(p.named("REVOKE " + right + " ON " + table + " FROM USER"))
			mend := examtest.Expect(t, p.store(), "rights", doctor.Broken, p.user+" has no "+right+" on public."+table, "denied")
			p.mended(p.store(), "rights", mend)
		}
	}
	p.exec("REVOKE USAGE ON SCHEMA public FROM public")
	mend := examtest.Expect(t, p.store(), "rights", doctor.Broken, p.user+" has no USAGE on schema public", "denied")
	p.mended(p.store(), "rights", mend)
}

func TestWhatTheUserMayNotReadIsAWarning(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.exec("REVOKE pg_monitor FROM " + p.user)
	mend := examtest.Expect(t, p.store(), "long transactions", doctor.Warning, "cannot read the transactions of other users", "")
	p.mended(p.store(), "long transactions", mend)
}

func TestAPoolOfOneConnectionIsAWarning(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	examtest.Expect(t, p.url(p.user, "&pool_max_conns=1"), "connections", doctor.Warning, "one connection", "waits for the one before")
	examtest.Expect(t, p.url(p.user, "&pool_max_conns=4"), "connections", doctor.OK, "a client uses up to 8", "")
}

func TestDeadRowsAreFound(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.exec("ALTER TABLE pawl_record SET (autovacuum_enabled = off)",
		"INSERT INTO pawl_record SELECT 'r' || i, 1, '', 0 FROM generate_series(1, 150000) i", "DELETE FROM pawl_record")
	examtest.Until(t, p.store(), "dead rows", doctor.Warning) // statistics come a moment later
	deadline := time.Now().Add(time.Minute)
	for examtest.One(t, p.store(), "dead rows").Mend != "ALTER TABLE pawl_record RESET (autovacuum_enabled); VACUUM pawl_record;" {
		if time.Now().After(deadline) {
			t.Fatal(doctortest.Text(examtest.One(t, p.store(), "dead rows")))
		}
		time.Sleep(50 * time.Millisecond) // poll: there is no notification
	}
	p.exec("VACUUM pawl_record", "ALTER TABLE pawl_record RESET (autovacuum_enabled)")
	examtest.Until(t, p.store(), "dead rows", doctor.OK)
}

func TestAPoolerPerTransactionIsAWarning(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	direct := p.addr
	p.addr = testserver.PgBouncer(t, shared.server, "transaction").Addr()
	examtest.Expect(t, p.url("postgres", ""), "pooler", doctor.Warning, "per transaction", "waiters poll")
	examtest.Clean(t, p.url("postgres", ""), "pooler")
	p.addr = testserver.PgBouncer(t, shared.server, "session").Addr()
	examtest.Clean(t, p.url("postgres", ""))
	doctortest.Applied("pooler")
	p.addr = direct
	examtest.Expect(t, p.url("postgres", ""), "pooler", doctor.OK, "none", "")
}

// On a clock that is an hour ahead, transactions that were begun before are old.
func TestAWrongClockAndOldTransactionsAreFound(t *testing.T) {
	t.Parallel()
	ck := testserver.NewClock(t)
	p := makePlace(t, testserver.PostgreSQLOn(t, ck, "-c", "fsync=on", "-c", "max_prepared_transactions=2"), "old")
	examtest.Clean(t, p.store())
	c := p.connect(p.name)
	defer c.Close(context.Background())
	for _, text := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1 FROM pawl_head"} {
		if _, err := c.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	p.exec("BEGIN", "INSERT INTO pawl_record VALUES ('x', 1, '', 0)", "PREPARE TRANSACTION 'left behind'")
	ck.Step(time.Hour)
	examtest.Expect(t, p.store(), "clock", doctor.Warning, "ahead of ours", "Leases end by the server's clock")
	mend := examtest.Expect(t, p.store(), "long transactions", doctor.Warning, "open for 1h", "slower and slower")
	p.exec(examtest.Statements(mend)...)
	if mend = examtest.One(t, p.store(), "long transactions").Mend; mend == "" {
		t.Fatal("the second one is not found")
	}
	p.mended(p.store(), "long transactions", mend)
	ck.Step(-time.Hour) // as timedatectl corrects it
	examtest.Expect(t, p.store(), "clock", doctor.OK, "from ours", "")
	doctortest.Applied("clock")
	ck.Step(-10 * time.Second)
	examtest.Expect(t, p.store(), "clock", doctor.Warning, "behind ours", "")
}

func TestSettingsThatLoseDataInACrashAreFound(t *testing.T) {
	t.Parallel()
	p := makePlace(t, testserver.PostgreSQL(t), "unsafe") // for tests it runs without fsync
	p.exec("ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()")
	examtest.Until(t, p.store(), "crash safety", doctor.Broken)
	deadline := time.Now().Add(time.Minute)
	want := "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf(); ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf();"
	for examtest.Expect(t, p.store(), "crash safety", doctor.Broken, "fsync is off", "corrupt the database") != want {
		if time.Now().After(deadline) {
			t.Fatal(doctortest.Text(examtest.One(t, p.store(), "crash safety")))
		}
		time.Sleep(50 * time.Millisecond) // poll: the server reads its settings a moment later
	}
	p.exec(examtest.Statements(want)...)
	doctortest.Eventually(t, "mended", func() bool { // but for fsync, which its command line has
		return examtest.One(t, p.store(), "crash safety").Found == "fsync is off"
	})
	doctortest.Applied("crash safety")
	p.exec("ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
	examtest.Until(t, p.store(), "dead rows", doctor.Warning)
	p.mendedSoon("dead rows", examtest.Expect(t, p.store(), "dead rows", doctor.Warning, "autovacuum is off", ""))
}

func TestReplicasAreJudgedByWhatAFailoverLoses(t *testing.T) {
	t.Parallel()
	s := testserver.PostgreSQL(t, "-c", "fsync=on")
	p := makePlace(t, s, "first")
	examtest.Expect(t, p.store(), "replicas", doctor.OK, "no replica", "")
	replica := testserver.PostgreSQLReplica(t, s.Addr(), "-c", "fsync=on", "-c", "cluster_name=near")
	examtest.Until(t, p.store(), "replicas", doctor.Warning)
	mend := examtest.Expect(t, p.store(), "replicas", doctor.Warning, "asynchronous replicas: near", "A failover loses the last grants")

	at := *p
	at.addr = replica.Addr()
	deadline := time.Now().Add(time.Minute)
	for { // the replica repeats what makePlace did a moment later
		_, err := doctor.Examine(t.Context(), at.store())
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	examtest.Expect(t, at.store(), "role", doctor.Broken, "read replica", "No lock can be taken here")

	p.exec("REVOKE pg_monitor FROM " + p.user)
	p.exec(examtest.Statements(examtest.Expect(t, p.store(), "replicas", doctor.Warning, "may not read", "asynchronous"))...)

	p.mendedSoon("replicas", mend)
	p.exec(p.named("ALTER ROLE USER SET synchronous_commit = local"))
	p.mended(p.store(), "replicas", examtest.Expect(t, p.store(), "replicas", doctor.Warning, "synchronous_commit is local", "do not wait for the replicas"))
	far := testserver.PostgreSQLReplica(t, s.Addr(), "-c", "fsync=on", "-c", "cluster_name=far")
	p.exec("ALTER SYSTEM SET synchronous_standby_names = near", "SELECT pg_reload_conf()")
	examtest.Until(t, p.store(), "replicas", doctor.Warning)
	doctortest.Eventually(t, "connected", func() bool { return strings.Contains(examtest.One(t, p.store(), "replicas").Found, "far") })
	mend = examtest.Expect(t, p.store(), "replicas", doctor.Warning, "synchronous replicas: near; asynchronous: far", "A failover to far loses the last grants")
	p.mendedSoon("replicas", mend)
	far.Stop()
	examtest.Until(t, p.store(), "replicas", doctor.Broken)
	p.mendedSoon("replicas", examtest.Expect(t, p.store(), "replicas", doctor.Broken, "wants 2 replicas, and 1 are connected", "Every grant waits"))
	replica.Stop()
	examtest.Until(t, p.store(), "replicas", doctor.Broken)
	p.mendedSoon("replicas", examtest.Expect(t, p.store(), "replicas", doctor.Broken, "wants 1 replicas, and 0 are connected", "Every grant waits"))
}

func TestASubscriptionThatWritesIntoTheTablesIsFound(t *testing.T) {
	t.Parallel()
	other := makePlace(t, testserver.PostgreSQL(t, "-c", "fsync=on", "-c", "wal_level=logical"), "publisher")
	other.exec("CREATE PUBLICATION locks FOR TABLE pawl_head, pawl_claim")
	p := newPlace(t)
	examtest.Expect(t, p.store(), "multi-primary", doctor.OK, "no other server", "")
	p.exec(fmt.Sprintf("CREATE SUBSCRIPTION both_ways CONNECTION 'host=127.0.0.1 port=%s user=postgres dbname=publisher' PUBLICATION locks",
		other.addr[len("127.0.0.1:"):]))
	defer p.exec("DROP SUBSCRIPTION both_ways")
	examtest.Expect(t, p.store(), "multi-primary", doctor.Broken, "subscription both_ways writes into the tables", "both grant the same lock")
	other.exec("ALTER PUBLICATION locks DROP TABLE pawl_head, pawl_claim")
	p.exec("ALTER SUBSCRIPTION both_ways REFRESH PUBLICATION")
	examtest.Expect(t, p.store(), "multi-primary", doctor.OK, "", "")
	doctortest.Applied("multi-primary")
	examtest.Until(t, other.store(), "replicas", doctor.OK) // a subscriber is none, once the connections of its first copy have ended
}
