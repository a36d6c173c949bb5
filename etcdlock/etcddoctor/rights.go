package etcddoctor

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdkeys"
)

// needed are the rights that pawl needs, each on all keys below a folder.
var needed = []struct {
	check, dir, what string // what goes wrong without it
	ask              func(folder string) []clientv3.Op
}{
	{"right to read lines", etcdkeys.LinesDir, "No lock can be taken.", reads},
	{"right to write lines", etcdkeys.LinesDir, "No lock can be taken.", writes},
	{"right to read records", etcdkeys.RecordsDir, "once and cell do not work.", reads},
	{"right to write records", etcdkeys.RecordsDir, "once and cell do not work.", writes},
}

func reads(folder string) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(folder, clientv3.WithPrefix(), clientv3.WithCountOnly())}
}

func writes(folder string) []clientv3.Op {
	return []clientv3.Op{clientv3.OpDelete(folder, clientv3.WithPrefix())}
}

// rights asks for each right. Members check all operations of a transaction, also those
// that it does not carry out.
func rights(ctx context.Context, c *cluster) (found []doctor.Finding) {
	m := c.serving()
	if m == nil {
		return []doctor.Finding{doctor.Warn("rights", "not examined: no member serves", "Whether pawl may do what it needs is not known.", "systemctl start etcd # on the members that do not answer; restart those that listen")}
	}
	for _, right := range needed {
		folder := c.prefix + right.dir
		err := never(ctx, m, right.ask(folder))
		switch {
		case err == nil:
			found = append(found, doctor.Good(right.check, folder))
		case refused(err):
			found = append(found, doctor.Break(right.check, "denied on "+folder, right.what, c.grant(ctx, m)))
		default:
			found = append(found, doctor.Warn(right.check, fmt.Sprintf("cannot ask for %s: %v", folder, err), "Whether pawl may do that is not known.", "etcdctl user get USER --detail"))
		}
	}
	return found
}

// never sends operations that are not carried out: without a condition a transaction
// succeeds, and what is for its failure is only checked.
func never(ctx context.Context, m *member, ops []clientv3.Op) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	_, err := m.client.Txn(ctx).Else(ops...).Commit()
	return err
}

// noteWritten notes the raft index after the transactions, as all members will reach it.
func (c *cluster) noteWritten(ctx context.Context) {
	m := c.serving()
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	status, err := m.client.Status(ctx, m.endpoint)
	if err != nil || status.RaftIndex <= m.status.RaftIndex {
		return
	}
	for _, other := range c.answering() {
		if other.status.Header.ClusterId == status.Header.ClusterId {
			other.written = status.RaftIndex
		}
	}
}

// serving returns a member that can be asked for more than its status.
func (c *cluster) serving() *member {
	for _, m := range c.answering() {
		if !m.status.IsLearner && m.status.Leader != 0 {
			return m
		}
	}
	return nil
}

// grant is the command that gives the rights: to the user's first role, or to a new one.
func (c *cluster) grant(ctx context.Context, m *member) string {
	prefix := c.prefix
	if prefix == "" {
		prefix = "@" // with which all keys begin then
	}
	user := c.url.User.Username()
	if user == "" {
		user = "USER" // of the client's certificate, or none yet
	}
	role, before, after := "pawl", "etcdctl role add pawl && ", fmt.Sprintf(" && etcdctl user grant-role %s pawl", user)
	if known, err := m.client.UserGet(ctx, user); err == nil && len(known.Roles) > 0 {
		role, before, after = known.Roles[0], "", ""
	}
	return fmt.Sprintf("%setcdctl role grant-permission %s --prefix=true readwrite %s%s", before, role, prefix, after)
}
