package etcddoctor

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
)

// oneCluster checks that all servers of the URL belong to one cluster.
func oneCluster(ctx context.Context, c *cluster) doctor.Finding {
	const check = "cluster"
	var ids []uint64
	hosts, used := map[uint64][]string{}, uint64(0)
	for _, m := range c.answering() {
		id := m.status.Header.ClusterId
		if len(hosts[id]) == 0 {
			ids = append(ids, id)
			if used == 0 && m.hasLines(ctx, c.prefix) {
				used = id
			}
		}
		hosts[id] = append(hosts[id], m.address)
	}
	if len(ids) == 1 {
		return doctor.Good(check, fmt.Sprintf("all servers of the URL belong to cluster %x", ids[0]))
	}
	var groups []string
	for _, id := range ids {
		groups = append(groups, fmt.Sprintf("%s to cluster %x", strings.Join(hosts[id], ", "), id))
	}
	return doctor.Break(check, strings.Join(groups, "; "),
		"Two clients can hold the same lock, each in another cluster.",
		fmt.Sprintf("PAWL_STORE=%s", c.storeURL(hosts[cmp.Or(used, ids[0])])))
}

// majority checks that the members agree on something.
func majority(ctx context.Context, c *cluster) doctor.Finding {
	const check = "majority"
	var err error
	for _, m := range c.answering() {
		if m.status.IsLearner || m.status.Leader == 0 {
			continue
		}
		if err = m.read(ctx, c.prefix); err == nil {
			return doctor.Good(check, fmt.Sprintf("a majority confirms reads, member %x leads in term %d", m.status.Leader, m.status.RaftTerm))
		}
	}
	found := "no member knows a leader"
	if err != nil {
		found = fmt.Sprintf("no majority confirms a read: %v", err)
	}
	return doctor.Break(check, found, "Nothing can be locked, unlocked or renewed; held locks end at their deadlines.",
		"systemctl start etcd # on the members that do not answer; restart those that listen")
}

// oneMore adds a member without a vote. One with a vote counts for the majority before it
// runs: beside a single member it takes the majority away.
const oneMore = "etcdctl member add NAME --learner --peer-urls=http://HOST:2380 # start it, then etcdctl member promote ID; then examine again before the next one"

// memberCount checks how many members may fail.
func memberCount(_ context.Context, c *cluster) doctor.Finding {
	const check = "members"
	list := c.list()
	if list == nil {
		return doctor.Warn(check, "cannot read the list of members", "How many members may fail is not known.", "etcdctl member list")
	}
	n := voters(list)
	found := fmt.Sprintf("%d that vote", n)
	switch {
	case n == 1:
		return doctor.Warn(check, found, "While this member is down no lock can be taken, renewed or released, and with its disk all locks and tokens are lost.",
			oneMore)
	case n%2 == 0:
		return doctor.Warn(check, found, fmt.Sprintf("No more of them may fail than of %d, and one more can.", n-1), oneMore)
	}
	return doctor.Good(check, found)
}

func voters(list []*pb.Member) (n int) {
	for _, m := range list {
		if !m.IsLearner {
			n++
		}
	}
	return n
}

// endpoints checks that the URL names more than one of several members.
func endpoints(_ context.Context, c *cluster) doctor.Finding {
	const check = "endpoints"
	list := c.list()
	if len(list) < 2 || len(c.named) > 1 {
		return doctor.Good(check, fmt.Sprintf("the URL names %d", len(c.named)))
	}
	var hosts []string
	for _, m := range list {
		if len(m.ClientURLs) > 0 && !m.IsLearner {
			_, address, _ := strings.Cut(m.ClientURLs[0], "://")
			hosts = append(hosts, address)
		}
	}
	return doctor.Warn(check, fmt.Sprintf("the URL names 1 of %d members", len(list)),
		"If that member fails, clients lose their locks though the cluster goes on.", "PAWL_STORE="+c.storeURL(hosts))
}

// storeURL is the URL with other hosts. It does not show the password.
func (c *cluster) storeURL(hosts []string) string {
	login := ""
	if c.url.User != nil {
		login = "USER:PASSWORD@"
	}
	return fmt.Sprintf("%s://%s%s/%s", c.url.Scheme, login, strings.Join(hosts, ","), strings.TrimSuffix(c.prefix, "/"))
}

// alarmText is how a status tells of an alarm.
var alarmText = regexp.MustCompile(`memberID:(\d+)\s+alarm:(\w+)`)

// alarms checks what the members refuse to do.
func alarms(_ context.Context, c *cluster) doctor.Finding {
	const check = "alarms"
	var raised, other []string
	var corrupt uint64
	space := false
	for _, m := range c.answering() {
		for _, text := range m.status.Errors {
			a := alarmText.FindStringSubmatch(text)
			if a == nil {
				if text != rpctypes.ErrorDesc(rpctypes.ErrNoLeader) { // of which another check tells
					other = append(other, text)
				}
				continue
			}
			id, _ := strconv.ParseUint(a[1], 10, 64) // digits only
			if found := fmt.Sprintf("%s at member %x", a[2], id); !slices.Contains(raised, found) {
				raised = append(raised, found)
			}
			if a[2] == pb.AlarmType_CORRUPT.String() {
				corrupt = id
			}
			space = space || a[2] == pb.AlarmType_NOSPACE.String()
		}
	}
	found := strings.Join(raised, ", ")
	switch {
	case len(raised) == 0 && len(other) > 0:
		return doctor.Warn(check, "a member reports: "+driver.OneLine(other[0]), "It may refuse locks; pawl does not know this report.", "etcdctl alarm list")
	case len(raised) == 0:
		return doctor.Good(check, "none")
	case corrupt != 0:
		return doctor.Break(check, found, "Members have different data, so two clients may hold the same lock; the cluster refuses all writes.",
			fmt.Sprintf("etcdctl member remove %x && sleep 5 && etcdctl alarm disarm # if it led, another has to be elected between; then add it again with an empty data folder", corrupt))
	case space:
		return doctor.Break(check, found, "No lock can be taken: the database has reached its quota. Held locks are renewed and released.",
			c.answering()[0].compact()+" && etcdctl alarm disarm")
	}
	return doctor.Break(check, found, "The cluster refuses writes.", "etcdctl alarm disarm # after its cause has ended")
}

// compact is the command that frees space.
func (m *member) compact() string {
	return fmt.Sprintf("etcdctl compact %d && etcdctl defrag --cluster", m.status.Header.Revision)
}

// silent tells of each member that does not answer.
func silent(c *cluster) (found []doctor.Finding) {
	for _, m := range append(slices.Clone(c.named), c.others...) {
		if m.alive {
			continue
		}
		mend := "systemctl start etcd # there"
		if m.listens { // it runs, so that a start would do nothing
			mend = "systemctl restart etcd # there: it listens and does not answer"
		}
		f := doctor.Warn("member", fmt.Sprintf("does not answer: %v", m.err),
			"If it is down, fewer of the others may fail, and clients lose time when they try it.", mend)
		found = append(found, f.At(m.address))
	}
	return found
}
