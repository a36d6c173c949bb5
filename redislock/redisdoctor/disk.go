package redisdoctor

import (
	"context"

	"github.com/pawl-go/pawl/doctor"
)

// persistence says what a crash of the server costs.
func persistence(_ context.Context, s *server) doctor.Finding {
	const (
		check   = "persistence"
		restart = "A server that restarts forgets the locks of its last moments while their holders still run; a holder learns it only at its next beat."
	)
	if s.info["aof_enabled"] != "1" {
		mend := s.configSet("appendonly yes", "appendfsync always")
		if s.config["save"] == "" {
			return doctor.Warn(check, "nothing is written to disk (appendonly no, no save)",
				"A server that restarts forgets all locks while their holders still run; a holder learns it only at its next beat.", mend)
		}
		return doctor.Warn(check, "snapshots only (appendonly no, save "+s.config["save"]+")", restart, mend)
	}
	if fsync := s.config["appendfsync"]; fsync != "always" {
		return doctor.Warn(check, "appendonly yes, appendfsync "+fsync, restart, "CONFIG SET appendfsync always")
	}
	if s.config["no-appendfsync-on-rewrite"] == "yes" {
		return doctor.Warn(check, "appendfsync always, but no-appendfsync-on-rewrite yes",
			"While the file is rewritten nothing is synced, and a crash then forgets locks that are held.", "CONFIG SET no-appendfsync-on-rewrite no")
	}
	return doctor.Good(check, "appendonly yes, appendfsync always")
}

// voterPersistence says what the loss of all data costs a quorum.
func voterPersistence(_ context.Context, s *server) doctor.Finding {
	const check = "persistence"
	if s.info["aof_enabled"] == "1" {
		return doctor.Good(check, "appendonly yes")
	}
	return doctor.Warn(check, "appendonly no", "If most servers restart at once, tokens continue from the clock instead of from the last token.", "CONFIG SET appendonly yes")
}

// diskWrites says whether the server fails to write to its disk.
func diskWrites(_ context.Context, s *server) doctor.Finding {
	const check = "disk writes"
	in := " in " + s.config["dir"]
	saves, strict := s.config["save"] != "", s.config["stop-writes-on-bgsave-error"] != "no"
	switch {
	case s.info["aof_enabled"] == "1" && s.info["aof_last_write_status"] == "err":
		return doctor.Break(check, "the last write to the append-only file failed"+in,
			"The server refuses all writes (MISCONF): no lock can be taken or renewed.", "df -h "+doctor.Quote(s.config["dir"]))
	case s.info["rdb_last_bgsave_status"] == "err" && saves && strict:
		return doctor.Break(check, "the last background save failed"+in,
			"The server refuses all writes (MISCONF) until a save succeeds: no lock can be taken or renewed.", "BGSAVE")
	case s.info["rdb_last_bgsave_status"] == "err" && saves:
		return doctor.Warn(check, "the last background save failed"+in,
			"After a restart the server knows only the locks of an older snapshot.", "BGSAVE")
	case s.info["aof_enabled"] == "1" && s.info["aof_last_bgrewrite_status"] == "err":
		return doctor.Warn(check, "the last rewrite of the append-only file failed"+in,
			"The file grows until the disk is full; then the server refuses all writes.", "BGREWRITEAOF")
	}
	return doctor.Good(check, "no failed write")
}
