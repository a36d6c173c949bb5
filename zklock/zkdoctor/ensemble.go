package zkdoctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/zklock/internal/zkpath"
)

// startSilent is the mend where no server serves. A start does nothing where one runs.
const startSilent = "zkServer.sh start # on the servers that do not answer; restart those that listen"

// majority checks that a server serves: it does so only with a majority.
func majority(_ context.Context, e *ensemble) doctor.Finding {
	const check = "majority"
	if n := len(e.serving()); n > 0 {
		return doctor.Good(check, fmt.Sprintf("%d of %d servers of the URL serve", n, len(e.servers)))
	}
	return doctor.Break(check, "no server of the URL serves", "Nothing can be locked, unlocked or renewed; held locks end at their deadlines.",
		startSilent)
}

// oneEnsemble checks that all servers of the URL have the same nodes.
func oneEnsemble(ctx context.Context, e *ensemble) doctor.Finding {
	const check = "ensemble"
	servers := e.serving()
	alone, leaders := 0, 0
	for _, s := range servers {
		switch s.mode() {
		case standalone:
			alone++
		case leading:
			leaders++
		}
	}
	var different, unknown string
	switch {
	case alone > 0 && len(servers) > 1:
		different = fmt.Sprintf("%d of %d servers are standalone", alone, len(servers))
	case leaders > 1:
		different = fmt.Sprintf("%d servers lead", leaders)
	default:
		different, unknown = e.differ(ctx, servers)
	}
	switch {
	case different == "" && unknown == "":
		return doctor.Good(check, "the servers of the URL have the same nodes")
	case different == "":
		return doctor.Warn(check, unknown, "Whether the URL names one ensemble is not known: in two, two clients can hold the same lock.",
			"PAWL_STORE="+e.storeURL(e.servers[:1]))
	}
	return doctor.Break(check, different, "The URL names different ensembles: two clients can hold the same lock, each in another one.",
		"PAWL_STORE="+e.storeURL([]*server{e.inUse(ctx, servers)}))
}

// inUse returns the first server that has lines of locks, or else the first one.
func (e *ensemble) inUse(ctx context.Context, servers []*server) *server {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	for _, s := range servers {
		lines := false
		err := s.conn.Call(ctx, func(c *zk.Conn) error {
			there, stat, err := c.Exists(e.root + zkpath.LinesDir)
			lines = there && stat.NumChildren > 0
			return err
		})
		if err == nil && lines {
			return s
		}
	}
	return servers[0]
}

// voters returns the lines of a server's settings that name servers with a vote; nil if it
// does not tell.
func (e *ensemble) voters() (lines []string) {
	for _, s := range e.serving() {
		for key, value := range s.conf {
			if strings.HasPrefix(key, "server.") && !strings.Contains(value, ":observer") {
				lines = append(lines, key+"="+value)
			}
		}
		if lines != nil {
			slices.Sort(lines)
			return lines
		}
	}
	return nil
}

// serverCount checks how many servers may fail.
func serverCount(_ context.Context, e *ensemble) doctor.Finding {
	const check = "servers"
	servers := e.serving()
	n := len(e.voters())
	switch {
	case len(servers) == 0:
		return doctor.Warn(check, "not known: no server serves", "How many servers may fail is not known.", startSilent)
	case servers[0].mode() == standalone:
		return doctor.Warn(check, "a single one, standalone", "While it is down no lock can be taken, renewed or released, and with its disk all locks and tokens are lost.",
			"server.1=HOST1:2888:3888 # and server.2, server.3, initLimit=10, syncLimit=5 in the zoo.cfg of each of three servers, its own number in dataDir/myid; start this one and one other, and the third when they serve: two that are empty would begin without its data")
	case n == 0:
		return servers[0].denied(check, "conf", "How many servers may fail is not known.")
	case n%2 == 0:
		return doctor.Warn(check, fmt.Sprintf("%d that vote", n), fmt.Sprintf("No more of them may fail than of %d, and one more can.", n-1),
			fmt.Sprintf("server.%d=HOST:2888:3888 # in the zoo.cfg of all, %d in its dataDir/myid; restart the others one by one, then start it", n+1, n+1))
	}
	return doctor.Good(check, fmt.Sprintf("%d that vote", n))
}

// followers checks that the leader has all its followers.
func followers(ctx context.Context, e *ensemble) doctor.Finding {
	const check = "followers"
	servers := e.serving()
	if len(servers) > 0 && servers[0].mode() == standalone {
		return doctor.Good(check, "none: the server is standalone")
	}
	i := slices.IndexFunc(servers, func(s *server) bool { return s.mode() == leading })
	if i < 0 {
		return doctor.Warn(check, "not known: no server of the URL leads", "Whether a server lags behind is not known.", "PAWL_STORE="+e.storeURL(nil))
	}
	counts := servers[i].counters(ctx)
	if counts == nil {
		return servers[i].denied(check, "mntr", "Whether a server lags behind is not known.")
	}
	synced, size := counts["zk_synced_followers"], counts["zk_quorum_size"]
	if size == 0 { // before 3.6
		size = float64(len(e.voters()))
	}
	if size == 0 {
		return servers[i].denied(check, "conf", "Whether a server lags behind is not known.")
	}
	found := fmt.Sprintf("%.0f of %.0f are in step with the leader", synced, size-1)
	if synced+1 < size {
		return doctor.Warn(check, found, "If more servers fail, nothing can be locked, renewed or released.", "zkServer.sh restart # on the servers that do not follow")
	}
	return doctor.Good(check, found)
}

// counters returns what a server counts; nil if it does not tell.
func (s *server) counters(ctx context.Context) map[string]float64 {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	text, err := s.word(ctx, "mntr")
	if err != nil {
		return nil
	}
	var all map[string]float64
	for key, value := range parse(text, "\t") {
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			if all == nil {
				all = map[string]float64{}
			}
			all[key] = n
		}
	}
	return all
}

// endpoints checks that the URL names more than one of several servers.
func endpoints(_ context.Context, e *ensemble) doctor.Finding {
	const check = "endpoints"
	if n := len(e.servers); n > 1 || e.servers[0].mode() == standalone {
		return doctor.Good(check, fmt.Sprintf("the URL names %d", n))
	}
	found := fmt.Sprintf("the URL names 1 of %d servers", max(len(e.voters()), 2))
	if e.servers[0].mode() == "" {
		found = "the URL names 1 server, which does not tell whether there are others"
	}
	return doctor.Warn(check, found,
		"If that server fails, clients lose their locks though the ensemble goes on.", "PAWL_STORE="+e.storeURL(nil))
}

// storeURL is the URL with some of its servers, or with room for more. It does not show the
// password.
func (e *ensemble) storeURL(servers []*server) string {
	login := ""
	if e.settings.User != "" {
		login = "USER:PASSWORD@"
	}
	hosts := slices.Clone(e.settings.Servers)
	if servers == nil {
		hosts = append(hosts, "HOST2:2181", "HOST3:2181")
	} else {
		hosts = nil
		for _, s := range servers {
			hosts = append(hosts, s.address)
		}
	}
	return fmt.Sprintf("zk://%s%s%s", login, strings.Join(hosts, ","), e.settings.Path)
}

// longTimeout is beyond what servers usually negotiate.
const longTimeout = 24 * time.Hour

// sessionLimits asks for a session as short as the URL's TTL needs, and for a very long one,
// and says which TTLs there can be: a claim may be relied on for three quarters of the
// timeout. A shorter session is not asked for: a slow server would not be waited for.
func sessionLimits(ctx context.Context, e *ensemble) doctor.Finding {
	const check = "session limits"
	long, short := doctor.TTL(ctx, doctor.RunTTL), doctor.TTL(ctx, doctor.LibraryTTL)
	needed := (short * 4 / 3).Truncate(time.Millisecond)
	least, err1 := e.negotiate(ctx, needed)
	most, err2 := e.negotiate(ctx, longTimeout)
	if err := cmp.Or(err1, err2); err != nil {
		return doctor.Warn(check, fmt.Sprintf("cannot open a session: %v", err), "Which TTLs there can be is not known.", startSilent)
	}
	from, to := least*3/4, most*3/4
	found := fmt.Sprintf("sessions of %v to %v, so TTLs of %v to %v", least, most, from, to)
	if least <= needed {
		found = fmt.Sprintf("sessions of up to %v, so TTLs of up to %v", most, to)
	}
	switch {
	case to < long:
		return doctor.Break(check, found, fmt.Sprintf("Longer TTLs are refused, also the %v that this URL or pawl run asks for.", long), fmt.Sprintf("maxSessionTimeout=%d", (long*4/3).Milliseconds()))
	case least > needed:
		return doctor.Warn(check, found, "Shorter TTLs are raised: locks of dead clients are freed later.", fmt.Sprintf("minSessionTimeout=%d", min(4000, (short*4/3).Milliseconds())))
	}
	return doctor.Good(check, found)
}

// negotiate returns the session timeout that the servers make of one.
func (e *ensemble) negotiate(ctx context.Context, timeout time.Duration) (time.Duration, error) {
	var serving []string
	for _, s := range e.serving() {
		serving = append(serving, s.address)
	}
	if serving == nil {
		return 0, errors.New("no server serves")
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	conn, err := connect(ctx, serving, timeout, e.settings)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	session, err := conn.Present()
	if err != nil {
		return 0, err
	}
	return session.Timeout, nil
}
