package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A line is the claims of one name in their order.
type line struct {
	path    string
	there   bool   // the container is
	made    int64  // the zxid that made it
	version int32  // of the container, raised by every claim that enters by a Multi
	came    uint32 // see comers
	changes int32  // of its children
	all     []child
}

// read reads a line as the server at hand knows it, which may be a little behind,
// but never behind what this life has seen or done.
func (e *Engine) read(ctx context.Context, l *link, f *life, name string) (*line, error) {
	n := &line{path: e.linePath(name)}
	var nodes []string
	var stat *zk.Stat
	err := l.do(ctx, f, func(c *zk.Conn) (err error) {
		nodes, stat, err = c.Children(n.path)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return n, nil
	case err != nil:
		return nil, err
	}
	n.there, n.made, n.version, n.changes = true, stat.Czxid, stat.Version, stat.Cversion
	n.came = comers(stat)
	if err := n.take(nodes); err != nil {
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	return n, e.order(ctx, l, f, n)
}

// comers is twice the number of children that a container ever had, as far as 32 bits
// go: the version of its children is shown as that, less the number there is.
func comers(container *zk.Stat) uint32 {
	return uint32(container.Cversion) + uint32(container.NumChildren)
}

// take reads the names of the children.
func (n *line) take(nodes []string) error {
	n.all = make([]child, 0, len(nodes)+1)
	for _, node := range nodes {
		c, ours, err := parseChild(node)
		if err != nil {
			return err
		}
		if ours {
			n.all = append(n.all, c)
		}
	}
	return nil
}

// nearEnd is where sequence numbers are no longer trusted. Newer servers stop
// counting at the largest number and give it again and again, older ones go on
// with the smallest.
const nearEnd = math.MaxInt32 - 1<<16

// order sorts the line: by sequence number while these can be trusted, else by
// the zxid of each node, which is asked for.
func (e *Engine) order(ctx context.Context, l *link, f *life, n *line) error {
	trusted := !slices.ContainsFunc(n.all, func(c child) bool { return c.seq < 0 || c.seq >= nearEnd })
	slices.SortFunc(n.all, func(a, b child) int { return cmp.Compare(a.seq, b.seq) })
	for i := 1; trusted && i < len(n.all); i++ {
		trusted = n.all[i].seq != n.all[i-1].seq
	}
	if trusted {
		return nil
	}
	born := make(map[string]int64, len(n.all))
	zxids := make([]int64, len(n.all))
	err := each(ctx, len(n.all), func(ctx context.Context, i int) error {
		return l.do(ctx, f, func(c *zk.Conn) error {
			there, stat, err := c.Exists(n.path + "/" + n.all[i].node)
			if err == nil && there {
				zxids[i] = stat.Czxid
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	for i, c := range n.all {
		born[c.node] = zxids[i]
	}
	n.all = slices.DeleteFunc(n.all, func(c child) bool { return born[c.node] == 0 }) // gone meanwhile
	slices.SortFunc(n.all, func(a, b child) int { return cmp.Compare(born[a.node], born[b.node]) })
	return nil
}

// at returns the place of a node in the line, or -1.
func (n *line) at(node string) int {
	return slices.IndexFunc(n.all, func(c child) bool { return c.node == node })
}

// clashes reports whether a claim at place i must be refused: the first shared
// claim of a line sets the limit for those behind it. One that was refused itself
// and is not gone yet counts for nothing.
func (n *line) clashes(i int) bool {
	if n.all[i].claim().Exclusive() {
		return false
	}
	for _, c := range n.all[:i] {
		if !c.claim().Exclusive() {
			return c.limit != n.all[i].limit
		}
	}
	return false
}

// A verdict says how one claim of a line stands.
type verdict struct {
	held  bool
	ahead int
	wait  []child // of which one must go before its turn can come
	next  bool    // wait is the one node right ahead of it, and exclusive
	sum   bool    // no single claim is in its way, but all of wait together
	whole bool    // wait is too long: watch the line instead
	spare []child // those that are further ahead, the nearest first; of a sum only
	all   bool    // spare has all of them
}

// maxWait is how many nodes a claim watches before it watches the whole line.
const maxWait = 128

// judge asks Place about the claim at place i. A shared claim of another limit
// ahead of it, which was refused and is about to go, is in its way as a whole.
func (n *line) judge(i int) verdict {
	me := n.all[i].claim()
	entries := make([]driver.Entry, i+1)
	for j, c := range n.all[:i+1] {
		entries[j].Claim = c.claim()
		entries[j].ID = c.node // unique, as an ID here need not be
		if e := &entries[j].Claim; !me.Exclusive() && !e.Exclusive() && e.Limit != me.Limit {
			e.Need, e.Limit = driver.All, driver.All
		}
	}
	held, ahead, blocker, _ := driver.Place(entries, n.all[i].node)
	v := verdict{held: held, ahead: ahead}
	switch {
	case held:
	case blocker != "":
		v.wait = []child{n.all[n.at(blocker)]}
		v.next = blocker == n.all[i-1].node && n.all[i-1].claim().Exclusive()
	default:
		n.sumInTheWay(i, &v)
	}
	return v
}

// sumInTheWay says what the claim at place i must watch where no single claim keeps
// it out, but their sum does: as many of the nearest as leave it no room. While they
// all stand its turn cannot come, whatever becomes of those further ahead; and they
// are the last to go.
func (n *line) sumInTheWay(i int, v *verdict) {
	used, limit := int64(n.all[i].need), int64(n.all[i].limit)
	j := i
	for j > 0 && used <= limit {
		j--
		used += int64(n.all[j].need)
		v.wait = append(v.wait, n.all[j])
	}
	further := n.all[max(0, j-maxWait):j]
	v.spare = slices.Clone(further)
	slices.Reverse(v.spare)
	v.sum, v.all, v.whole = true, len(further) == j, len(v.wait) > maxWait
}

// linePath is where a name's line is.
func (e *Engine) linePath(name string) string { return e.lines + "/" + encode(name) }

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
