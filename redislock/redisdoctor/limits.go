package redisdoctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-go/pawl/doctor"
)

const (
	// manyKeys is where List, which scans all keys, takes about as long as the second
	// between two listings of pawl watch and pawl serve, with the server nearby.
	manyKeys = 500_000
	// manyClients is the share of maxclients, in percent, above which a restart of a
	// few programs at once, whose old connections still count, may use up the rest.
	manyClients = 80
	// A session with the default TTL beats every ten seconds; a connection that is closed
	// for having been idle for a few of these has to be made anew for the next call.
	shortTimeout = time.Minute
)

// keys says whether listing the locks is slow.
func keys(_ context.Context, s *server) doctor.Finding {
	const check = "keys"
	db := strconv.Itoa(s.Client.SelectDB)
	n := number(parts(s.info["db"+db])["keys"])
	found := fmt.Sprintf("%d in database %s", n, db)
	if n < manyKeys {
		return doctor.Good(check, found)
	}
	mend := "redis-server --port 6380 # a server for the locks alone"
	if s.url.Scheme == "redis" || s.url.Scheme == "rediss" {
		other := *s.store
		u := *s.url
		u.Path, other.url = "/"+strconv.Itoa(s.Client.SelectDB+1), &u
		mend = other.at(u.Scheme, u.Host, "", "")
	}
	return doctor.Warn(check, found, "pawl ls, watch and serve scan all keys and take a second or more; taking a lock does not.", mend)
}

// clients says whether the server has room for more connections.
func clients(_ context.Context, s *server) doctor.Finding {
	const check = "clients"
	n, limit := s.number("connected_clients"), s.number("maxclients")
	found := fmt.Sprintf("%d of at most %d", n, limit)
	if limit == 0 { // servers before Redis 7 do not tell it in INFO
		return doctor.Finding{}
	}
	if n*100 < limit*manyClients {
		return doctor.Good(check, found)
	}
	return doctor.Warn(check, found, "At the limit the server refuses connections: clients that reconnect lose their locks.",
		fmt.Sprintf("CONFIG SET maxclients %d", max(10_000, 2*limit)))
}

// idleTimeout says whether the server closes connections that are still needed.
func idleTimeout(_ context.Context, s *server) doctor.Finding {
	const check = "idle timeout"
	timeout := time.Duration(number(s.config["timeout"])) * time.Second
	switch {
	case timeout == 0:
		return doctor.Good(check, "none")
	case timeout >= shortTimeout:
		return doctor.Good(check, timeout.String())
	}
	return doctor.Warn(check, "timeout is "+timeout.String(), "The server closes connections between two uses; calls then wait for a new one.", "CONFIG SET timeout 0")
}
