package mysqldoctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

func crashSafety(_ context.Context, s *server) (doctor.Finding, error) {
	f := sqlexam.Faults{}
	switch flush := s.global["innodb_flush_log_at_trx_commit"]; flush {
	case "":
		f.Add(doctor.Warning, "the server does not tell innodb_flush_log_at_trx_commit", "Whether a crash forgets grants is not known.", "SHOW ENGINES;")
	case "0":
		f.Add(doctor.Broken, "innodb_flush_log_at_trx_commit is 0", "A crash of the server forgets the grants of the last second: locks that are held are granted again.",
			s.set("innodb_flush_log_at_trx_commit", "1"))
	case "2":
		f.Add(doctor.Warning, "innodb_flush_log_at_trx_commit is 2", "A power failure forgets the grants of the last second.", s.set("innodb_flush_log_at_trx_commit", "1"))
	}
	if strings.EqualFold(s.status["innodb_redo_log_enabled"], "OFF") { // ALTER INSTANCE: no variable tells it
		f.Add(doctor.Broken, "the redo log is disabled", "A crash of the server makes all its data unusable, grants and tokens included.", "ALTER INSTANCE ENABLE INNODB REDO_LOG;")
	}
	if method := s.global["innodb_flush_method"]; strings.EqualFold(method, "nosync") || strings.EqualFold(method, "littlesync") {
		f.Add(doctor.Broken, "innodb_flush_method is "+method, "A power failure can corrupt the tables.", "innodb_flush_method = fsync")
	}
	if strings.EqualFold(s.global["innodb_doublewrite"], "OFF") || s.global["innodb_doublewrite"] == "0" {
		f.Add(doctor.Warning, "innodb_doublewrite is off", "A power failure in the middle of a write can corrupt the tables.", "innodb_doublewrite = ON")
	}
	if on(s.global["log_bin"]) && s.global["sync_binlog"] != "1" {
		f.Add(doctor.Warning, "sync_binlog is "+s.global["sync_binlog"], "After a power failure the replicas may lack grants that the server has.", s.set("sync_binlog", "1"))
	}
	return f.Finding("commits are on disk when they are answered"), nil
}

func binaryLog(_ context.Context, s *server) (doctor.Finding, error) {
	format := s.session["binlog_format"]
	switch {
	case !on(s.global["log_bin"]):
		return doctor.Good("", "it is off"), nil
	case strings.EqualFold(format, "STATEMENT"):
		return doctor.Break("", "binlog_format is STATEMENT", "A name that is held cannot be waited for, and readers and permits are refused: the server refuses their changes at READ COMMITTED. A replica that repeats the statements stops.",
			s.set("binlog_format", "'ROW'")), nil
	}
	return doctor.Good("", "binlog_format is "+format), nil
}

func replicas(ctx context.Context, s *server) (doctor.Finding, error) {
	if !on(s.global["log_bin"]) {
		return doctor.Good("", "none, since there is no binary log"), nil
	}
	n, err := s.replicas(ctx)
	switch {
	case err != nil:
		return doctor.Finding{Mend: fmt.Sprintf("GRANT REPLICATION SLAVE ON *.* TO %s;", s.user)}, err
	case n == 0:
		return doctor.Good("", "no replica is connected"), nil
	}
	for _, name := range []string{"master", "source"} {
		if on(s.status["rpl_semi_sync_"+name+"_status"]) && isSet(s.status["rpl_semi_sync_"+name+"_clients"]) {
			return doctor.Good("", fmt.Sprintf("%d, and commits wait for one (semi-synchronous)", n)), nil
		}
	}
	// Replicas that connect to a server without the plugin stay asynchronous. Enabled
	// before them it would make commits wait.
	mend := "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; " +
		"On the replicas INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'; SET PERSIST rpl_semi_sync_replica_enabled = ON; STOP REPLICA; START REPLICA; " +
		"and here SET PERSIST rpl_semi_sync_source_enabled = ON;"
	if s.before([3]int{8, 0, 26}) { // where the plugins have their old names
		mend = strings.NewReplacer("sync_replica", "sync_slave", "sync_source", "sync_master", "REPLICA", "SLAVE").Replace(mend)
	}
	if s.mariaDB {
		mend = "On the replicas SET GLOBAL rpl_semi_sync_slave_enabled = ON; STOP SLAVE; START SLAVE; and here SET GLOBAL rpl_semi_sync_master_enabled = ON;"
	}
	return doctor.Warn("", fmt.Sprintf("%d replicas, all asynchronous", n),
		"A failover loses the last grants: a new holder may hold while the old one does not know yet.", mend), nil
}

// replicas returns how many are connected. MySQL before 8.0.22 knows only the old name of
// the statement, and 8.4 only the new one.
func (s *server) replicas(ctx context.Context) (int, error) {
	if s.mariaDB {
		return strconv.Atoi(s.status["slaves_connected"])
	}
	rows, err := s.Query(ctx, "SHOW REPLICAS")
	if isCode(err, syntaxError) {
		rows, err = s.Query(ctx, "SHOW SLAVE HOSTS")
	}
	return len(rows), err
}
