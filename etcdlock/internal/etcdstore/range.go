package etcdstore

import clientv3 "go.etcd.io/etcd/client/v3"

// A Range is a range of keys, its end excluded. Without an end it is one key.
type Range struct{ From, To string }

// Key is the range of one key.
func Key(key string) Range { return Range{From: key} }

// Holds reports whether key lies in the range.
func (r Range) Holds(key string) bool { return key == r.From || key > r.From && key < r.To }

// Read reads the range.
func (r Range) Read(opts ...clientv3.OpOption) clientv3.Op {
	return clientv3.OpGet(r.From, r.options(opts)...)
}

// Newest reads the limit keys of the range that were created last, newest first.
func (r Range) Newest(limit int, opts ...clientv3.OpOption) clientv3.Op {
	return r.Read(append(opts, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(int64(limit)))...)
}

// Some reads limit keys of the range, in the order of their names. So the server reads no
// others: for every other order it reads the whole range, and inside a transaction all
// writes of the cluster wait for that.
func (r Range) Some(limit int, opts ...clientv3.OpOption) clientv3.Op {
	return r.Read(append(opts, clientv3.WithLimit(int64(limit)))...)
}

// Oldest reads the key of the range that was created first.
func (r Range) Oldest() clientv3.Op {
	return r.Read(clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
}

// Any reads whether the range has a key.
func (r Range) Any() clientv3.Op { return r.Read(clientv3.WithKeysOnly(), clientv3.WithLimit(1)) }

// Empty holds while the range has no key.
func (r Range) Empty() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(r.From), "=", 0).WithRange(r.To)
}

// UnchangedSince holds while no key of the range was put after revision.
func (r Range) UnchangedSince(revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(r.From), "<", revision+1).WithRange(r.To)
}

// CreatedAt holds while key is the one that was created at revision; 0: while there is
// no such key.
func CreatedAt(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", revision)
}

// CreatedUpTo holds while key was created at revision or earlier, or does not exist.
func CreatedUpTo(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "<", revision+1)
}

func (r Range) options(opts []clientv3.OpOption) []clientv3.OpOption {
	if r.To == "" {
		return opts
	}
	return append(opts[:len(opts):len(opts)], clientv3.WithRange(r.To))
}
