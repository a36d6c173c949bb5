package zkdoctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driverkit"
)

// state checks that a server serves.
func state(s *server) doctor.Finding {
	const check = "state"
	const mend = "zkServer.sh start # there"
	switch {
	case errors.Is(s.err, os.ErrDeadlineExceeded): // of the connection: a start would find that it runs
		return doctor.Warn(check, fmt.Sprintf("does not answer: %v", s.err), "If it is stuck, fewer of the others may fail, and clients lose time when they try it.", "zkServer.sh restart # there: it listens and does not answer; kill -9 it before, if it does not stop")
	case s.err != nil:
		return doctor.Warn(check, fmt.Sprintf("does not answer: %v", s.err), "If it is down, fewer of the others may fail, and clients lose time when they try it.", mend)
	case s.mode() == readOnly:
		return doctor.Warn(check, "read-only", "It is cut off from the majority and refuses locks.", "zkServer.sh start # on the servers that it cannot reach")
	case s.conn == nil:
		return doctor.Warn(check, fmt.Sprintf("does not serve: %v", s.refusal), "It is cut off from the majority, or there is none.", "zkServer.sh start # on the servers that it cannot reach")
	case s.mode() == "":
		return doctor.Warn(check, "it serves, and does not answer srvr", "Its version and its role are not known.", "4lw.commands.whitelist=srvr,conf,mntr")
	}
	return doctor.Good(check, s.mode())
}

// version checks for servers without container nodes, and for those whose data may differ
// after a crash: ZOOKEEPER-3642 and ZOOKEEPER-3911, both mended in 3.5.10 by its release notes.
func version(_ context.Context, s *server) doctor.Finding {
	return judgeVersion(s.srvr["Zookeeper version"])
}

func judgeVersion(text string) doctor.Finding {
	const check = "version"
	var major, minor, patch int
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return doctor.Warn(check, fmt.Sprintf("cannot read the version %q", text), "Whether it has known faults is not known.", "4lw.commands.whitelist=srvr,conf,mntr")
	}
	found := fmt.Sprintf("%d.%d.%d", major, minor, patch)
	switch {
	case major < 3 || major == 3 && minor < 5:
		return doctor.Break(check, found, "It has no container nodes, which pawl needs.", "install ZooKeeper 3.8 or newer")
	case major == 3 && minor == 5 && patch < 10:
		return doctor.Warn(check, found, "After a crash of the leader servers may have different nodes, and two clients may hold the same lock.", "install ZooKeeper 3.5.10 or newer")
	}
	return doctor.Good(check, found)
}

// roundTrip measures what a beat takes.
func roundTrip(ctx context.Context, s *server) doctor.Finding {
	return doctor.RoundTrip(ctx, "run pawl nearer to the servers, or give their logs a disk of their own (dataLogDir)", s.barrier)
}

// setting returns a number of the server's settings.
func (s *server) setting(key string) (int, bool) {
	n, err := strconv.Atoi(s.conf[key])
	return n, err == nil
}

// tick checks the unit of the servers' times: TTLs under two and a quarter ticks are not
// safe where a client and its server are cut off together, see docs/zookeeper.md.
func tick(ctx context.Context, s *server) doctor.Finding {
	const check = "tick"
	millis, ok := s.setting("tickTime")
	if !ok {
		return s.denied(check, "conf", "Which TTLs are safe is not known.")
	}
	length := time.Duration(millis) * time.Millisecond
	safe := length * 9 / 4
	found := fmt.Sprintf("%v: TTLs from %v are safe", length, safe)
	if ttl := doctor.TTL(ctx, doctor.LibraryTTL); safe > ttl {
		return doctor.Warn(check, found, fmt.Sprintf("A holder that is cut off with its server may be told after another client can hold, also with a TTL of %v.", ttl),
			fmt.Sprintf("tickTime=%d", min(2000, (ttl*4/9).Milliseconds())))
	}
	return doctor.Good(check, found)
}

// fewConnections is a limit that a few programs on one machine reach: each has a connection
// for itself and one for each TTL in use.
const fewConnections = 20

// clientLimit checks how many connections one machine may have.
func clientLimit(_ context.Context, s *server) doctor.Finding {
	const check = "client limit"
	n, ok := s.setting("maxClientCnxns")
	switch {
	case !ok:
		return s.denied(check, "conf", "How many programs of one machine can lock is not known.")
	case n == 0:
		return doctor.Good(check, "no limit of connections from one address")
	}
	found := fmt.Sprintf("%d connections from one address", n)
	if n < fewConnections {
		return doctor.Warn(check, found, "Each program needs two or more: further ones on the same machine cannot lock.", "maxClientCnxns=60")
	}
	return doctor.Good(check, found)
}

const (
	flushes = "zk_cnt_sync_processor_queue_flush_time_ms" // counted after each write of the log
	syncs   = "zk_cnt_fsynctime"                          // counted in it, if the server waits for its disk
)

// forceSync checks that the server waits for its disk. The setting cannot be read: a server
// that does not wait writes its log and counts no fsync.
func forceSync(ctx context.Context, s *server) doctor.Finding {
	const check = "forcesync"
	before := s.counters(ctx)
	if _, counted := before[flushes]; !counted {
		return s.denied(check, "mntr, or counts no writes", "Whether it waits for its disk is not known.")
	}
	if err := s.barrier(ctx); err != nil {
		return doctor.Warn(check, fmt.Sprintf("cannot make it write: %v", err), "Whether it waits for its disk is not known.", "zkServer.sh status")
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	for s.counters(ctx)[flushes] <= before[flushes] {
		if !driverkit.Pause(ctx, 20*time.Millisecond) { // poll: there is no notification
			return doctor.Warn(check, "not measured: the server wrote nothing meanwhile", "Whether it waits for its disk is not known.", "zkServer.sh status")
		}
	}
	after := s.counters(ctx) // again: both numbers after the write
	if after[syncs] > before[syncs] {
		return doctor.Good(check, fmt.Sprintf("%.0f fsyncs since it started", after[syncs]))
	}
	return doctor.Warn(check, "it writes and does not wait for its disk", "If its machine loses power, the server forgets locks that were granted; if most do, two clients may hold and tokens repeat.",
		"forceSync=yes")
}
