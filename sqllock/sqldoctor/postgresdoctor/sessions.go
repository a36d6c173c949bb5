package postgresdoctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

func pooler(_ context.Context, s *server) (doctor.Finding, error) {
	switch {
	case s.PerTransaction:
		return doctor.Warn("", "a pooler that assigns connections per transaction", "Notices do not arrive: waiters poll every 2 to 50 ms instead, behind many others more seldom.",
			"pool_mode = session"), nil
	case s.Pooled:
		return doctor.Good("", "a pooler that keeps connections for a session"), nil
	}
	return doctor.Good("", "none in between"), nil
}

// shortIdle: the connection that listens is pinged every 15 seconds, and after 30 at the
// latest.
const shortIdle = 30 * time.Second

// limits are the timeouts by which the server ends statements or connections. All are in
// milliseconds, and 0 is none.
var limits = []struct {
	name, meaning string
	least         time.Duration
	better        string
}{
	{"statement_timeout", "Statements that wait for a row are cut off and sent again.", sqlexam.ShortStatement, "'10s'"},
	{"lock_timeout", "Statements that wait for a row are cut off and sent again.", sqlexam.ShortStatement, "'10s'"},
	{"transaction_timeout", "Statements that wait for a row are cut off and sent again.", sqlexam.ShortStatement, "'10s'"},
	{"idle_in_transaction_session_timeout", "A guarded transaction that pauses is ended.", sqlexam.ShortStatement, "'10s'"},
	{"idle_session_timeout", "The connection on which notices arrive is cut, and waiters poll until it is made again.", shortIdle, "'10min'"},
	{"tcp_user_timeout", "A short pause of the network cuts the connections.", sqlexam.ShortStatement, "'10s'"},
}

func timeouts(_ context.Context, s *server) (doctor.Finding, error) {
	f := sqlexam.Faults{}
	for _, l := range limits {
		if d := time.Duration(s.number(l.name)) * time.Millisecond; d > 0 && d < l.least {
			f.Add(doctor.Warning, fmt.Sprintf("%s is %v", l.name, d), l.meaning, s.set(l.name, l.better))
		}
	}
	return f.Finding("none is too short"), nil
}

func isolation(_ context.Context, s *server) (doctor.Finding, error) {
	level := s.settings["default_transaction_isolation"]
	if level != "read committed" {
		return doctor.Warn("", "default_transaction_isolation is "+level, "Guard and OnceTx must be the first statement of a transaction, or they are refused; locks themselves work.",
			s.set("default_transaction_isolation", "'read committed'")), nil
	}
	return doctor.Good("", level), nil
}

// connections judges how many the server has left for this user. The statistics count the
// one of the examination too.
func connections(ctx context.Context, s *server) (doctor.Finding, error) {
	if s.Pooled {
		return doctor.Good("", "the pooler's, which the server does not know"), nil
	}
	rows, err := s.Query(ctx, `SELECT r.rolsuper, r.rolconnlimit, d.datconnlimit, (SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database),
		(SELECT numbackends FROM pg_stat_database WHERE datname = d.datname), (SELECT count(*) FROM pg_stat_activity WHERE usename = r.rolname)
		FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()`)
	if err != nil {
		return doctor.Finding{}, err
	}
	var n [6]int
	for i := range n {
		n[i], _ = strconv.Atoi(rows[0][i])
	}
	super := rows[0][0] == "t"
	ofServer := s.number("max_connections")
	if !super {
		ofServer -= s.number("superuser_reserved_connections") + s.number("reserved_connections")
	}
	left, found, mend := ofServer-n[3]+1, fmt.Sprintf("%d of %d connections are in use", n[3], ofServer),
		fmt.Sprintf("ALTER SYSTEM SET max_connections = %d; and restart the server", 2*s.number("max_connections"))
	for _, own := range []struct {
		limit, used int
		of, mend    string
	}{
		{n[2], n[4], "of database " + s.database, "ALTER DATABASE " + s.database},
		{n[1], n[5], "of user " + s.user, "ALTER ROLE " + s.user},
	} {
		if rest := own.limit - own.used + 1; !super && own.limit >= 0 && rest < left {
			left, found = rest, fmt.Sprintf("%d of %d connections %s are in use", own.used, own.limit, own.of)
			mend = fmt.Sprintf("%s CONNECTION LIMIT %d;", own.mend, own.limit+s.Conns+s.Further)
		}
	}
	return sqlexam.Connections(s.Server, left, found, mend), nil
}
