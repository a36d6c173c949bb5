package postgresdoctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

// longTransactions finds the oldest transaction from whose beginning on the server keeps
// old versions of rows in this database, prepared ones included.
func longTransactions(ctx context.Context, s *server) (doctor.Finding, error) {
	reads := "pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')"
	if s.version < 100000 {
		reads = "(SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"
	}
	rows, err := s.Query(ctx, "SELECT "+reads+`, mend, age FROM (
		SELECT 'SELECT pg_terminate_backend(' || pid || ');' AS mend, CAST(extract(epoch FROM clock_timestamp() - xact_start) AS bigint) AS age
		FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND coalesce(backend_xid, backend_xmin) IS NOT NULL
		UNION ALL SELECT 'ROLLBACK PREPARED ' || quote_literal(gid) || ';', CAST(extract(epoch FROM clock_timestamp() - prepared) AS bigint)
		FROM pg_prepared_xacts WHERE database = current_database()
		UNION ALL SELECT '', 0) o ORDER BY age DESC NULLS LAST LIMIT 1`)
	if err != nil {
		return doctor.Finding{}, err
	}
	seconds, _ := strconv.ParseInt(rows[0][2], 10, 64)
	const meaning = "The server keeps every old version of pawl's rows meanwhile: locks on busy names become slower and slower."
	switch age := time.Duration(seconds) * time.Second; {
	case age > sqlexam.LongTransaction:
		return doctor.Warn("", fmt.Sprintf("a transaction has been open for %v", age), meaning, rows[0][1]), nil
	case rows[0][0] != "t":
		return doctor.Warn("", "cannot read the transactions of other users", meaning, fmt.Sprintf("GRANT pg_read_all_stats TO %s;", s.user)), nil
	}
	return doctor.Good("", fmt.Sprintf("none is older than %v", sqlexam.LongTransaction)), nil
}

// manyDead is how many dead rows a table may have: over a thousand pages, through which
// List and every search for waiting claims have to go.
const manyDead = 100_000

func deadRows(ctx context.Context, s *server) (doctor.Finding, error) {
	if s.oids() == "" {
		return doctor.Finding{}, sqlexam.ErrSkip
	}
	dead, err := s.Pairs(ctx, "SELECT relid, n_dead_tup FROM pg_stat_all_tables WHERE relid IN ("+s.oids()+")")
	if err != nil {
		return doctor.Finding{}, err
	}
	const meaning = "Dead rows are not removed: locks and lists become slower and slower."
	f, most := sqlexam.Faults{}, 0
	if s.settings["autovacuum"] == "off" {
		f.Add(doctor.Warning, "autovacuum is off", meaning, setServer("autovacuum", "on"))
	}
	if s.settings["track_counts"] == "off" {
		f.Add(doctor.Warning, "track_counts is off, without which autovacuum does nothing", meaning, setServer("track_counts", "on"))
	}
	for _, t := range s.tables {
		if strings.Contains(t.options, "autovacuum_enabled=false") || strings.Contains(t.options, "autovacuum_enabled=off") {
			f.Add(doctor.Warning, "autovacuum is off for "+t.name, meaning, fmt.Sprintf("ALTER TABLE %s RESET (autovacuum_enabled);", t.name))
		}
		n, _ := strconv.Atoi(dead[t.oid])
		most = max(most, n)
		if n > manyDead {
			f.Add(doctor.Warning, fmt.Sprintf("%d dead rows in %s", n, t.name), meaning, fmt.Sprintf("VACUUM %s;", t.name))
		}
	}
	return f.Finding(fmt.Sprintf("at most %d in a table", most)), nil
}
