package mysqldoctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

// shortIdle: the pools of a URL close a connection that was idle for a minute, and none
// before.
const shortIdle = time.Minute

// limits are the variables by which the server ends statements or connections, with their
// units. 0 is none.
var limits = []struct {
	name, meaning string
	unit, least   time.Duration
	better        string
}{
	{"wait_timeout", "Idle connections are cut, and the next lock or renewal has to connect first.", time.Second, shortIdle, "600"},
	{"max_statement_time", "Statements that wait for a row are cut off and sent again.", time.Second, sqlexam.ShortStatement, "10"},
	{"max_execution_time", "Statements that read a line are cut off, and waiters learn of their turn late.", time.Millisecond, sqlexam.ShortStatement, "10000"},
}

func timeouts(_ context.Context, s *server) (doctor.Finding, error) {
	f := sqlexam.Faults{}
	for _, l := range limits {
		n, _ := strconv.ParseFloat(s.session[l.name], 64) // one that the server does not have is 0
		if d := time.Duration(n * float64(l.unit)); d > 0 && d < l.least {
			f.Add(doctor.Warning, fmt.Sprintf("%s is %v", l.name, d), l.meaning, s.set(l.name, l.better))
		}
	}
	return f.Finding("none is too short"), nil
}

// sessionDefaults are of interest to pools of the user's own: those of a URL set what
// they need.
func sessionDefaults(_ context.Context, s *server) (doctor.Finding, error) {
	f := sqlexam.Faults{}
	if !on(s.global["autocommit"]) {
		f.Add(doctor.Warning, "autocommit is off", "pawl refuses a pool of your own (*sql.DB); with a URL it works.", s.set("autocommit", "ON"))
	}
	if mode := s.global["sql_mode"]; strings.Contains(mode, "EMPTY_STRING_IS_NULL") {
		f.Add(doctor.Warning, "sql_mode has EMPTY_STRING_IS_NULL", "Locks fail on a pool of your own (*sql.DB); with a URL they work.",
			s.set("sql_mode", "REPLACE(@@GLOBAL.sql_mode, 'EMPTY_STRING_IS_NULL', '')"))
	}
	return f.Finding("they suit locks"), nil
}

func isolation(_ context.Context, s *server) (doctor.Finding, error) {
	name := "transaction_isolation"
	if s.session[name] == "" {
		name = "tx_isolation"
	}
	level := s.session[name]
	if level == "SERIALIZABLE" {
		return doctor.Warn("", name+" is SERIALIZABLE", "Transactions with OnceTx may end each other as deadlocks; locks themselves work.",
			s.set(name, "'READ-COMMITTED'")), nil
	}
	return doctor.Good("", level), nil
}

// connections judges how many the server has left for this user. The statistics count the
// one of the examination too.
func connections(ctx context.Context, s *server) (doctor.Finding, error) {
	limit, _ := strconv.Atoi(s.global["max_connections"])
	used, _ := strconv.Atoi(s.status["threads_connected"])
	left, found, mend := limit-used+1, fmt.Sprintf("%d of %d connections are in use", used, limit), s.set("max_connections", strconv.Itoa(2*limit))
	if own, _ := strconv.Atoi(s.session["max_user_connections"]); own > 0 { // of the account, or of the server
		text, err := s.One(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = SUBSTRING_INDEX(USER(), '@', 1)")
		if err != nil {
			return doctor.Finding{}, err
		}
		used, _ = strconv.Atoi(text)
		if rest := own - used + 1; rest < left {
			left, found = rest, fmt.Sprintf("%d of %d connections of %s are in use", used, own, s.user)
			mend = fmt.Sprintf("ALTER USER %s WITH MAX_USER_CONNECTIONS %d;", s.user, own+s.Conns+s.Further)
		}
	}
	return sqlexam.Connections(s.Server, left, found, mend), nil
}

// longTransactions finds the oldest transaction from whose beginning on the server keeps
// old versions of rows.
func longTransactions(ctx context.Context, s *server) (doctor.Finding, error) {
	rows, err := s.Query(ctx, `SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, NOW()) AS age FROM information_schema.INNODB_TRX
		WHERE trx_mysql_thread_id <> CONNECTION_ID() ORDER BY trx_started LIMIT 1`)
	if err != nil {
		return doctor.Finding{Mend: fmt.Sprintf("GRANT PROCESS ON *.* TO %s;", s.user)}, err
	}
	if len(rows) > 0 {
		seconds, _ := strconv.ParseInt(rows[0][1], 10, 64)
		if age := time.Duration(seconds) * time.Second; age > sqlexam.LongTransaction {
			return doctor.Warn("", fmt.Sprintf("a transaction has been open for %v", age),
				"The server keeps every old version of pawl's rows meanwhile: locks on busy names become slower and slower.", fmt.Sprintf("KILL %s;", rows[0][0])), nil
		}
	}
	return doctor.Good("", fmt.Sprintf("none is older than %v", sqlexam.LongTransaction)), nil
}
