package postgresdoctor

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

func crashSafety(_ context.Context, s *server) (doctor.Finding, error) {
	f := sqlexam.Faults{}
	if s.settings["fsync"] == "off" {
		f.Add(doctor.Broken, "fsync is off", "A power failure can corrupt the database: grants are lost, and tokens may repeat.", setServer("fsync", "on"))
	}
	if s.settings["full_page_writes"] == "off" {
		f.Add(doctor.Warning, "full_page_writes is off", "A power failure in the middle of a write can corrupt the tables.", setServer("full_page_writes", "on"))
	}
	return f.Finding("fsync and full_page_writes are on"), nil
}

func synchronousCommit(_ context.Context, s *server) (doctor.Finding, error) {
	value := s.settings["synchronous_commit"]
	if value == "off" {
		return doctor.Warn("", "synchronous_commit is off",
			"Grants wait for the disk all the same, but a guarded transaction that was committed may be lost in a crash.",
			s.set("synchronous_commit", "on")), nil
	}
	return doctor.Good("", "synchronous_commit is "+value), nil
}

// syncNumber is how many replicas synchronous_standby_names wants, where it is not one.
var syncNumber = regexp.MustCompile(`(?i)^\s*(?:first|any)?\s*(\d+)\s*\(`)

// replicas judges what a failover can lose. A replica that receives changes row by row
// (logical) cannot become the primary.
func replicas(ctx context.Context, s *server) (doctor.Finding, error) {
	rows, err := s.Query(ctx, `SELECT coalesce(r.application_name, ''), coalesce(r.sync_state, '') FROM pg_stat_replication r
		WHERE coalesce(r.state, '') <> 'backup'
		AND NOT EXISTS (SELECT 1 FROM pg_replication_slots l WHERE l.slot_type = 'logical' AND l.active_pid = r.pid)`)
	if err != nil {
		return doctor.Finding{}, err
	}
	names, waits := s.settings["synchronous_standby_names"], s.settings["synchronous_commit"]
	var synchronous, asynchronous []string
	for _, r := range rows {
		switch r[1] {
		case "":
			return doctor.Warn("", fmt.Sprintf("%d replicas, and %s may not read whether they are synchronous", len(rows), s.user),
				"A failover to an asynchronous replica loses the last grants.", fmt.Sprintf("GRANT pg_monitor TO %s;", s.user)), nil
		case "sync", "quorum":
			synchronous = append(synchronous, r[0])
		default:
			asynchronous = append(asynchronous, r[0])
		}
	}
	need := 1
	if m := syncNumber.FindStringSubmatch(names); m != nil {
		need, _ = strconv.Atoi(m[1])
	}
	switch {
	case names != "" && waits == "local":
		return doctor.Warn("", "synchronous_commit is local", "Grants do not wait for the replicas: a failover loses the last ones, and two may hold one lock.",
			s.set("synchronous_commit", "on")), nil
	case names != "" && len(synchronous) < need:
		return doctor.Break("", fmt.Sprintf("synchronous_standby_names wants %d replicas, and %d are connected", need, len(synchronous)),
			"Every grant waits for a replica that is not there.", awaitAll(rows)), nil
	case len(rows) == 0:
		return doctor.Good("", "no replica is connected"), nil
	case len(synchronous) == 0:
		return doctor.Warn("", "asynchronous replicas: "+list(asynchronous), "A failover loses the last grants: a new holder may hold while the old one does not know yet.", awaitAll(rows)), nil
	case len(asynchronous) > 0:
		return doctor.Warn("", fmt.Sprintf("synchronous replicas: %s; asynchronous: %s", list(synchronous), list(asynchronous)),
			fmt.Sprintf("A failover to %s loses the last grants: a new holder may hold while the old one does not know yet. If grants wait for all replicas, they wait while one is away.", list(asynchronous)),
			awaitAll(rows)), nil
	case need < len(synchronous):
		return doctor.Good("", fmt.Sprintf("%d synchronous replicas; grants wait for %d of them, and a failover must go to the one that has most", len(synchronous), need)), nil
	}
	return doctor.Good("", fmt.Sprintf("%d synchronous replicas", len(synchronous))), nil
}

// awaitAll returns the statements that make commits wait for all replicas that are
// connected.
func awaitAll(replicas [][]string) string {
	if len(replicas) == 0 {
		return setServer("synchronous_standby_names", "''")
	}
	return setServer("synchronous_standby_names", fmt.Sprintf("'ANY %d (*)'", len(replicas)))
}
