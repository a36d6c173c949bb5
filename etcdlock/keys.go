package etcdlock

import (
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdkeys"
	"github.com/pawl-go/pawl/etcdlock/internal/etcdstore"
)

// The parts of a key. A TAB ends the name: names have no control characters, so the
// rest of a key can neither be part of a name nor reach into the line of another name.
const (
	nameEnds = "\t"
	lineEnds = "\n" // the byte after nameEnds: where the range of a line ends

	exclusiveTag = "x"
	sharedTag    = "s"
)

// A keyspace is the part of the store that belongs to one prefix.
type keyspace string

// newKeyspace checks a prefix.
func newKeyspace(prefix string) (keyspace, error) {
	start, err := etcdkeys.Prefix(prefix)
	return keyspace(start), err
}

func (k keyspace) record(key string) string { return string(k) + etcdkeys.RecordsDir + key }

// names is the beginning of the keys of all names that begin with prefix.
func (k keyspace) names(prefix string) string { return string(k) + etcdkeys.LinesDir + prefix }

// lineKeys is the beginning of all keys in the line of one name.
type lineKeys string

func (k keyspace) line(name string) lineKeys { return lineKeys(k.names(name) + nameEnds) }

// all is the range of the whole line.
func (l lineKeys) all() etcdstore.Range {
	return etcdstore.Range{From: string(l), To: strings.TrimSuffix(string(l), nameEnds) + lineEnds}
}

// exclusive is the range of the exclusive claims.
func (l lineKeys) exclusive() etcdstore.Range {
	return etcdstore.Range{From: string(l) + exclusiveTag, To: string(l) + "y"}
}

// shared is the range of the claims that are not exclusive.
func (l lineKeys) shared() etcdstore.Range {
	return etcdstore.Range{From: string(l) + sharedTag, To: string(l) + "t"}
}

// limit is the range of the shared claims under one limit.
func (l lineKeys) limit(limit int) etcdstore.Range {
	return etcdstore.Range{From: l.sharedKey(limit, 0), To: l.sharedKey(limit+1, 0)}
}

// otherLimits are the ranges of the shared claims under any other limit.
func (l lineKeys) otherLimits(limit int) [2]etcdstore.Range {
	shared, same := l.shared(), l.limit(limit)
	return [2]etcdstore.Range{{From: shared.From, To: same.From}, {From: same.To, To: shared.To}}
}

// multiUnit is the range of the shared claims under one limit that need more than one unit.
func (l lineKeys) multiUnit(limit int) etcdstore.Range {
	return etcdstore.Range{From: l.sharedKey(limit, 2), To: l.sharedKey(limit+1, 0)}
}

func (l lineKeys) sharedKey(limit, need int) string {
	return fmt.Sprintf("%s%s%08x%08x", l, sharedTag, limit, need)
}

// key is the key of a claim in a slot of lease.
func (l lineKeys) key(c driver.Claim, lease clientv3.LeaseID, slot int) string {
	start := string(l) + exclusiveTag
	if !c.Exclusive() {
		start = l.sharedKey(c.Limit, c.Need)
	}
	return fmt.Sprintf("%s%016x.%d", start, uint64(lease), slot)
}

// A claimKey is a claim as far as its key describes it.
type claimKey struct {
	key         string
	revision    int64 // create revision: the place in line, and the token
	need, limit int   // of a shared claim
	exclusive   bool
}

// errForeign says that a key in a line is not a claim.
type errForeign struct{ key string }

func (e *errForeign) Error() string {
	return fmt.Sprintf("etcdlock: key %q is in a line but was not written by pawl: delete it, or use another prefix", e.key)
}

// parse reads a key of the line.
func (l lineKeys) parse(kv *mvccpb.KeyValue) (claimKey, error) {
	k := claimKey{key: string(kv.Key), revision: kv.CreateRevision}
	tail, ok := strings.CutPrefix(k.key, string(l))
	switch {
	case !ok:
	case strings.HasPrefix(tail, exclusiveTag):
		k.exclusive = true
		_, ok = parseTail(tail[1:], 16)
	case strings.HasPrefix(tail, sharedTag):
		var numbers []int64
		if numbers, ok = parseTail(tail[1:], 8, 8, 16); ok {
			k.limit, k.need = int(numbers[0]), int(numbers[1])
			ok = k.need > 0 && k.need < k.limit
		}
	default:
		ok = false
	}
	if !ok {
		return k, &errForeign{k.key}
	}
	return k, nil
}

// parseTail reads hexadecimal numbers of the given widths, then a dot and a slot.
func parseTail(s string, widths ...int) (numbers []int64, ok bool) {
	for _, w := range widths {
		if len(s) < w {
			return nil, false
		}
		n, err := strconv.ParseUint(s[:w], 16, 64)
		if err != nil {
			return nil, false
		}
		numbers, s = append(numbers, int64(n)), s[w:]
	}
	slot, ok := strings.CutPrefix(s, ".")
	if _, err := strconv.ParseUint(slot, 10, 31); err != nil {
		return nil, false
	}
	return numbers, ok
}

// parseAll reads the keys of a reply.
func (l lineKeys) parseAll(kvs []*mvccpb.KeyValue) ([]claimKey, error) {
	keys := make([]claimKey, 0, len(kvs))
	for _, kv := range kvs {
		k, err := l.parse(kv)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}
