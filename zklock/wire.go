package zklock

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// A frame is its length, an xid and an op, which post fills in, and the request.
const frameHead = 12

func newFrame() []byte { return make([]byte, frameHead, 512) }

func putInt(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }

func putText(b []byte, text string) []byte { return append(putInt(b, int32(len(text))), text...) }

func putData(b, data []byte) []byte {
	if data == nil {
		return putInt(b, -1)
	}
	return append(putInt(b, int32(len(data))), data...)
}

// getFrame asks for a node's data and sets a watch on it.
func getFrame(path string) []byte { return append(putText(newFrame(), path), 1) }

func createFrame(c *zk.CreateRequest) []byte { return putCreate(newFrame(), c) }

func putCreate(b []byte, c *zk.CreateRequest) []byte {
	b = putData(putText(b, c.Path), c.Data)
	b = putInt(b, int32(len(c.Acl)))
	for _, a := range c.Acl {
		b = putText(putText(putInt(b, a.Perms), a.Scheme), a.ID)
	}
	return putInt(b, c.Flags)
}

func deleteFrame(d *zk.DeleteRequest) []byte { return putDelete(newFrame(), d) }

func putDelete(b []byte, d *zk.DeleteRequest) []byte { return putInt(putText(b, d.Path), d.Version) }

// multiFrame asks for all of ops or nothing.
func multiFrame(ops []any) []byte {
	b := newFrame()
	for _, op := range ops {
		b = putInt(append(putInt(b, opOf(op)), 0), -1)
		switch op := op.(type) {
		case *zk.CreateRequest:
			b = putCreate(b, op)
		case *zk.SetDataRequest:
			b = putInt(putData(putText(b, op.Path), op.Data), op.Version)
		case *zk.DeleteRequest:
			b = putDelete(b, op)
		}
	}
	return putInt(append(putInt(b, -1), 1), -1) // there are no more
}

// opOf is the number of a part of a Multi.
func opOf(part any) int32 {
	switch part.(type) {
	case *zk.CreateRequest:
		return opCreate
	case *zk.SetDataRequest:
		return opSetData
	case *zk.DeleteRequest:
		return opDelete
	}
	panic(fmt.Sprintf("zklock: %T in a Multi", part))
}

// A reply is what is left to read of one. It reads zeros where it is too short.
type reply struct {
	rest  []byte
	short bool
}

func (r *reply) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.rest, r.short = nil, true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reply) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reply) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// text reads a text or buffer, of which there may be none.
func (r *reply) text() []byte { return r.take(max(0, int(r.int32()))) }

func (r *reply) stat() *zk.Stat {
	return &zk.Stat{
		Czxid: r.int64(), Mzxid: r.int64(), Ctime: r.int64(), Mtime: r.int64(),
		Version: r.int32(), Cversion: r.int32(), Aversion: r.int32(),
		EphemeralOwner: r.int64(), DataLength: r.int32(), NumChildren: r.int32(), Pzxid: r.int64(),
	}
}

// errShort says that a server answered something else than was asked: what it did is
// not known.
var errShort = errors.New("zklock: an answer that cannot be read")

func (r *reply) err() error {
	if r.short {
		return errShort
	}
	return nil
}

func readData(body []byte) (data []byte, stat *zk.Stat, err error) {
	r := reply{rest: body}
	data = append([]byte(nil), r.text()...)
	stat = r.stat()
	return data, stat, r.err()
}

// readMulti returns what came of each part, and the first error among them.
func readMulti(body []byte, ops []any) (parts []zk.MultiResponse, err error) {
	const opError = -1
	for r := (reply{rest: body}); ; {
		op, last := r.int32(), r.take(1)
		r.int32() // an error once more
		if r.short {
			return nil, errShort
		}
		if (last[0] != 0) != (len(parts) == len(ops)) {
			return nil, errShort
		}
		if last[0] != 0 {
			return parts, err
		}
		var part zk.MultiResponse
		switch asked := opOf(ops[len(parts)]); {
		case op == opError:
			part.Error = errorOf(r.int32())
		case op != asked:
			return nil, errShort
		case op == opCreate:
			part.String = string(r.text())
		case op == opSetData:
			part.Stat = r.stat()
		}
		if err == nil {
			err = part.Error
		}
		parts = append(parts, part)
	}
}

// errorOf is the library's error for a server's code, which it keeps to itself.
func errorOf(code int32) error {
	switch code {
	case 0:
		return nil
	case -8:
		return zk.ErrBadArguments
	case -100:
		return zk.ErrAPIError
	case -101:
		return zk.ErrNoNode
	case -102:
		return zk.ErrNoAuth
	case -103:
		return zk.ErrBadVersion
	case -108:
		return zk.ErrNoChildrenForEphemerals
	case -110:
		return zk.ErrNodeExists
	case -111:
		return zk.ErrNotEmpty
	case -112:
		return zk.ErrSessionExpired
	case -114:
		return zk.ErrInvalidACL
	case -115:
		return zk.ErrAuthFailed
	case -116:
		return zk.ErrClosing
	case -118:
		return zk.ErrSessionMoved
	}
	return fmt.Errorf("zklock: the server's error %d", code)
}
