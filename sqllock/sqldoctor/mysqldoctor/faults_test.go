package mysqldoctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/examtest"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

// wrongSettings sets up a server wrong by one statement, and mends it.
func wrongSettings(p *place, kind string) {
	for _, test := range []struct {
		only           string // of one kind of server
		wrong, check   string
		level          doctor.Level
		found, meaning string
	}{
		{"", "SET GLOBAL innodb_flush_log_at_trx_commit = 2", "crash safety", doctor.Warning, "innodb_flush_log_at_trx_commit is 2", "A power failure forgets"},
		{"", "SET GLOBAL innodb_flush_log_at_trx_commit = 0", "crash safety", doctor.Broken, "innodb_flush_log_at_trx_commit is 0", "A crash of the server forgets"},
		{"mysql", "ALTER INSTANCE DISABLE INNODB REDO_LOG", "crash safety", doctor.Broken, "the redo log is disabled", "makes all its data unusable"},
		{"mysql", "REVOKE SELECT ON performance_schema.replication_connection_status FROM app@'%'", "multi-primary", doctor.Warning, "may not read whether the server replicates", "two clients may hold"},
		{"", "SET GLOBAL read_only = ON", "role", doctor.Broken, "read_only is ON", "No lock can be taken"},
		{"mysql", "SET GLOBAL transaction_read_only = ON", "role", doctor.Broken, "transaction_read_only is ON", "No lock can be taken"},
		{"mariadb", "SET GLOBAL tx_read_only = ON", "role", doctor.Broken, "tx_read_only is ON", "No lock can be taken"},
		{"", "SET GLOBAL wait_timeout = 20", "timeouts", doctor.Warning, "wait_timeout is 20s", "has to connect first"},
		{"mariadb", "SET GLOBAL max_statement_time = 0.5", "timeouts", doctor.Warning, "max_statement_time is 500ms", "cut off and sent again"},
		{"mysql", "SET GLOBAL max_execution_time = 500", "timeouts", doctor.Warning, "max_execution_time is 500ms", "late"},
		{"", "SET GLOBAL autocommit = OFF", "session defaults", doctor.Warning, "autocommit is off", "refuses a pool of your own"},
		{"mariadb", "SET GLOBAL sql_mode = 'STRICT_TRANS_TABLES,EMPTY_STRING_IS_NULL'", "session defaults", doctor.Warning, "EMPTY_STRING_IS_NULL", "pool of your own"},
		{"mysql", "SET GLOBAL transaction_isolation = 'SERIALIZABLE'", "isolation level", doctor.Warning, "SERIALIZABLE", "deadlocks"},
		{"mariadb", "SET GLOBAL tx_isolation = 'SERIALIZABLE'", "isolation level", doctor.Warning, "SERIALIZABLE", "deadlocks"},
		{"", "SET GLOBAL max_connections = 12", "connections", doctor.Warning, "of 12 connections are in use", "too few"},
		{"", "ALTER USER app@'%' WITH MAX_USER_CONNECTIONS 5", "connections", doctor.Warning, "1 of 5 connections of 'app'@'%'", "too few"},
		{"", "ALTER USER app@'%' WITH MAX_USER_CONNECTIONS 1", "connections", doctor.Broken, "1 of 1 connections of 'app'@'%'", "no connection"},
		{"", "ALTER TABLE pawl_claim ENGINE = MyISAM", "tables", doctor.Broken, "pawl_claim is a table of MyISAM", "two clients can hold"},
		{"", "REVOKE PROCESS ON *.* FROM app@'%'", "long transactions", doctor.Warning, "cannot read it", "not made"},
	} {
		if test.only != "" && test.only != kind {
			continue
		}
		p.awaitNoClient()
		p.inTables(test.wrong)
		mend := examtest.Expect(p.t, p.store(), test.check, test.level, test.found, test.meaning)
		p.awaitNoClient()
		p.mended(p.store(), test.check, mend)
	}
	p.exec("ALTER USER app@'%' WITH MAX_USER_CONNECTIONS 0")
	examtest.Expect(p.t, p.url("app", "?max_conns=1"), "connections", doctor.Warning, "one connection", "waits for the one before")
}

// awaitNoClient waits until the server has ended all closed connections, which would count
// as used.
func (p *place) awaitNoClient() {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for n := 1; n > 0; {
		if err := p.db.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app'").Scan(&n); err != nil {
			p.t.Fatal(err)
		}
		if n > 0 && time.Now().After(deadline) {
			p.t.Fatalf("%d clients are left", n)
		}
		time.Sleep(5 * time.Millisecond) // poll: there is no notification
	}
}

func missingRights(p *place, _ string) {
	for _, table := range []string{"pawl_meta", "pawl_head", "pawl_claim", "pawl_record"} {
		for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			if table == "pawl_meta" && right != "SELECT" {
				continue
			}
			p.exec("REVOKE " + right + " ON locks." + table + " FROM app@'%'")
			mend := examtest.Expect(p.t, p.store(), "rights", doctor.Broken, "'app'@'%' has no "+right+" on "+table, "denied")
			p.exec(examtest.Statements(mend)...)
			examtest.Expect(p.t, p.store(), "rights", doctor.OK, "may read and change", "")
			doctortest.Applied("rights")
		}
	}
}

func wrongTables(p *place, _ string) {
	p.exec("UPDATE locks.pawl_meta SET version = 0")
	examtest.Expect(p.t, p.store(), "tables", doctor.Broken, "of version 0, this program knows version 1", "refused")
	p.exec("UPDATE locks.pawl_meta SET version = 7")
	examtest.Expect(p.t, p.store(), "tables", doctor.Broken, "of version 7", "refused")
	p.exec("DROP TABLE locks.pawl_meta", "DROP TABLE locks.pawl_claim")
	root := p.url("root", "")
	if mend := examtest.Expect(p.t, root, "tables", doctor.Broken, "there is no pawl_meta, pawl_claim", "No lock"); mend != "pawl migrate -s URL" {
		p.t.Error(mend)
	}
	examtest.Migrate(p.t, root)
	examtest.Expect(p.t, root, "tables", doctor.OK, "version 1", "")
	p.exec("DROP TABLE locks.pawl_record", "CREATE TABLE locks.pawl_record (song text)")
	examtest.Expect(p.t, root, "tables", doctor.Broken, "pawl_record is there and not pawl's", "another program")
	examtest.Migrate(p.t, p.url("root", "?table_prefix=other_"))
	examtest.Clean(p.t, p.url("root", "?table_prefix=other_"))
}

// On a clock that is an hour ahead, transactions that were begun before are old.
func TestAWrongClockAndOldTransactionsAreFound(t *testing.T) {
	t.Parallel()
	ck := testserver.NewClock(t)
	p := newPlace(t, testserver.MariaDBOn(t, ck, good))
	examtest.Clean(t, p.store())
	tx, err := p.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("INSERT INTO locks.pawl_record VALUES ('x', 1, '', 0)"); err != nil {
		t.Fatal(err)
	}
	ck.Step(time.Hour)
	examtest.Expect(t, p.store(), "clock", doctor.Warning, "ahead of ours", "Leases end by the server's clock")
	examtest.Until(t, p.store(), "long transactions", doctor.Warning)
	mend := examtest.Expect(t, p.store(), "long transactions", doctor.Warning, "open for 1h", "slower and slower")
	p.exec(examtest.Statements(mend)...)
	examtest.Until(t, p.store(), "long transactions", doctor.OK)
	ck.Step(-time.Hour) // as timedatectl corrects it
	examtest.Expect(t, p.store(), "clock", doctor.OK, "from ours", "")
	doctortest.Applied("clock")
	ck.Step(-10 * time.Second)
	examtest.Expect(t, p.store(), "clock", doctor.Warning, "behind ours", "")
}

func TestTheBinaryLogAndItsReplicasAreJudged(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testserver.MariaDB(t, good, "--log-bin", "--server-id=1", "--sync-binlog=0", "--binlog-format=STATEMENT"))
	p.mended(p.store(), "binary log", examtest.Expect(t, p.store(), "binary log", doctor.Broken, "STATEMENT", "cannot be waited for"))
	p.mended(p.store(), "crash safety", examtest.Expect(t, p.store(), "crash safety", doctor.Warning, "sync_binlog is 0", "replicas may lack"))
	examtest.Clean(t, p.store())

	replica := testserver.MariaDBReplica(t, p.server.Addr(), good)
	examtest.Until(t, p.store(), "replicas", doctor.Warning)
	mend := examtest.Expect(t, p.store(), "replicas", doctor.Warning, "1 replicas, all asynchronous", "A failover loses the last grants")
	asOldMySQL(t, p.url("root", ""))

	at := &place{t: t, server: replica, db: openRoot(t, replica)}
	root := at.url("root", "")
	at.awaitStore(root)
	if mend := examtest.Expect(t, root, "role", doctor.Broken, "read_only is ON", "No lock can be taken here"); mend != "-s 'mysql://PRIMARY/DATABASE'" {
		t.Error(mend)
	}
	at.exec("SET GLOBAL read_only = OFF")
	before := doctortest.Examine(t, root)
	if mend := doctortest.Expect(t, before, "multi-primary", "", doctor.Warning, "accepts writes and replicates from another", "two hold the same lock").Mend; mend != "-s 'mysql://PRIMARY/DATABASE'" {
		t.Error(mend)
	}
	doctortest.Mended(t, before, doctortest.Examine(t, p.store()), "multi-primary", "", "replicas") // of which the primary tells
	at.exec("SET GLOBAL read_only = ON")

	carryOut(p, at, mend)
	examtest.Until(t, p.store(), "replicas", doctor.OK)
	if f := examtest.One(t, p.store(), "replicas"); !strings.Contains(f.Found, "semi-synchronous") {
		t.Error(doctortest.Text(f))
	}
}

// What the meaning of the finding says: a free name is locked, and one that is held is not
// waited for.
func TestWithALogOfStatementsOnlyFreeNamesAreLocked(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testserver.MariaDB(t, good, "--log-bin", "--server-id=1", "--binlog-format=STATEMENT"))
	var clients [2]*pawl.Client
	for i := range clients {
		c, err := pawl.Open(p.t.Context(), p.store())
		if err != nil {
			p.t.Fatal(err)
		}
		defer c.Close()
		clients[i] = c
	}
	if _, err := clients[0].Mutex("m").Lock(p.t.Context()); err != nil {
		p.t.Errorf("a free name: %v", err)
	}
	if _, err := clients[1].Mutex("m").Lock(p.t.Context()); !errors.Is(err, pawl.ErrUnsupported) {
		p.t.Errorf("a name that is held: %v", err)
	}
	if _, err := clients[1].RWMutex("r").RLock(p.t.Context()); !errors.Is(err, pawl.ErrUnsupported) {
		p.t.Errorf("a reader: %v", err)
	}
}

// A server that is built for Galera may run without it.
func TestAServerWithoutAProviderIsNotOneOfGalera(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testserver.MariaDB(t, good, "--wsrep-on=ON", "--binlog-format=ROW")) // it takes locks: pawl migrate opens the engine
	examtest.Clean(t, p.store())
}

// asOldMySQL examines the replicas of a MariaDB as those of a MySQL before 8.0.22, which is
// not at hand: both answer SHOW REPLICAS with the same error.
func asOldMySQL(t *testing.T, store string) {
	t.Helper()
	u, err := driver.ParseURL(store)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sqlexam.Examine(t.Context(), u, func(ctx context.Context, on *sqlexam.Server) ([]doctor.Finding, error) {
		if _, err := on.Query(ctx, "SHOW REPLICAS"); !isCode(err, syntaxError) {
			t.Errorf("SHOW REPLICAS: %v", err)
		}
		s := &server{Server: on}
		if err := s.read(ctx); err != nil {
			return nil, err
		}
		s.mariaDB, s.global["version"] = false, "8.0.21"
		f, err := replicas(ctx, s)
		mend := examtest.Compare(t, f, doctor.Warning, "1 replicas, all asynchronous", "A failover loses")
		if !strings.Contains(mend, "rpl_semi_sync_slave SONAME 'semisync_slave.so'") || !strings.Contains(mend, "START SLAVE") || !strings.Contains(mend, "rpl_semi_sync_master_enabled") {
			t.Error(mend)
		}
		return nil, err
	})
	if err != nil {
		t.Error(err)
	}
}

// A server that speaks the protocol of MySQL may not know all that MySQL knows.
func TestAQuestionThatTheServerRefusesIsAWarningUnlessLocksAskIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testserver.MariaDB(t, good))
	u, err := driver.ParseURL(p.store())
	if err != nil {
		t.Fatal(err)
	}
	odd := func(ctx context.Context, s *server) (doctor.Finding, error) {
		_, err := s.Query(ctx, "SHOW NOTHING")
		return doctor.Finding{}, err
	}
	cut := func(ctx context.Context, s *server) (doctor.Finding, error) {
		_, err := s.Query(ctx, "KILL CONNECTION_ID()")
		return doctor.Finding{}, err
	}
	_, err = sqlexam.Examine(t.Context(), u, func(ctx context.Context, on *sqlexam.Server) ([]doctor.Finding, error) {
		found := sqlexam.Run(ctx, &server{Server: on}, []check{{Name: "odd", Look: odd}, {Name: "needed", Look: odd, Shared: true}, {Name: "cut", Look: cut}})
		doctortest.WellFormed(t, found)
		doctortest.Expect(t, found, "odd", "", doctor.Warning, "cannot read it", "which locks do not ask")
		doctortest.Expect(t, found, "needed", "", doctor.Broken, "not examined", "Locks may fail")
		doctortest.Expect(t, found, "cut", "", doctor.Broken, "not examined", "Locks may fail")
		return nil, nil
	})
	if err != nil && !errors.Is(err, driver.ErrUnreachable) { // its connection is cut
		t.Error(err)
	}
}

func TestAServerThatDoesNotTellWhenItFlushesIsWarnedOf(t *testing.T) {
	f, err := crashSafety(t.Context(), &server{global: map[string]string{}})
	if err != nil || f.Level != doctor.Warning {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestAFlushMethodThatDoesNotFlushIsBroken(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testserver.MariaDB(t, good, "--innodb-flush-method=nosync", "--skip-innodb-doublewrite"))
	f := examtest.One(t, p.store(), "crash safety")
	want := fmt.Sprint(doctor.Broken, " innodb_flush_method is nosync, innodb_doublewrite is off")
	if got := fmt.Sprint(f.Level, " ", f.Found); got != want || !strings.Contains(f.Mend, "innodb_flush_method = fsync") {
		t.Error(doctortest.Text(f))
	}
}

// carryOut does what a mend says at a server and its replica.
func carryOut(p, replica *place, mend string) {
	p.t.Helper()
	before, rest, _ := strings.Cut(mend, "On the replicas ")
	there, here, _ := strings.Cut(rest, "and here ")
	p.exec(examtest.Statements(before)...)
	replica.exec(examtest.Statements(there)...)
	p.exec(examtest.Statements(here)...)
}

// MySQL tells of replicas only to users with a right of its own.
func TestReplicasOfMySQLAreJudged(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testserver.MySQL(t, good, "--log-bin=binlog", "--server-id=1"))
	examtest.Clean(t, p.store(), "replicas")
	p.mended(p.store(), "replicas", examtest.Expect(t, p.store(), "replicas", doctor.Warning, "cannot read it", "not made"))

	replica := testserver.MySQL(t, good, "--server-id=2")
	at := &place{t: t, server: replica, db: openRoot(t, replica)}
	at.exec(fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='root', GET_SOURCE_PUBLIC_KEY=1", p.server.Port()), "START REPLICA")
	examtest.Until(t, p.store(), "replicas", doctor.Warning)
	mend := examtest.Expect(t, p.store(), "replicas", doctor.Warning, "1 replicas, all asynchronous", "A failover loses the last grants")
	root := at.url("root", "")
	at.awaitStore(root)
	before := doctortest.Examine(t, root)
	if mend := doctortest.Expect(t, before, "multi-primary", "", doctor.Warning, "accepts writes and replicates from another", "two hold the same lock").Mend; mend != "-s 'mysql://PRIMARY/DATABASE'" {
		t.Error(mend)
	}
	doctortest.Mended(t, before, doctortest.Examine(t, p.store()), "multi-primary", "", "replicas") // of which the primary tells
	at.exec("SET GLOBAL read_only = ON")
	if mend := examtest.Expect(t, root, "role", doctor.Broken, "read_only is ON", "No lock can be taken here"); mend != "-s 'mysql://PRIMARY/DATABASE'" {
		t.Error(mend)
	}
	carryOut(p, at, mend)
	examtest.Until(t, p.store(), "replicas", doctor.OK)
}

func TestAGroupWithSeveralPrimariesIsBroken(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testserver.MySQL(t, good))
	p.exec("INSTALL PLUGIN group_replication SONAME 'group_replication.so'", "SET GLOBAL group_replication_single_primary_mode = OFF")
	examtest.Expect(t, p.store(), "multi-primary", doctor.Broken, "a group with several primaries", "two grant the same lock")
	examtest.Expect(t, p.url("app", "?multi_primary=allow"), "multi-primary", doctor.Warning, "and the URL permits it", "this very server")
	p.exec("SET GLOBAL group_replication_single_primary_mode = ON")
	examtest.Expect(t, p.store(), "multi-primary", doctor.OK, "", "")
}

// awaitStore waits until a replica has the database.
func (p *place) awaitStore(store string) {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := doctor.Examine(p.t.Context(), store)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // poll: there is no notification
	}
}
