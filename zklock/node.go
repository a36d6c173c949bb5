package zklock

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/zklock/internal/zkpath"
)

// encode makes a node's name of any text, and decode is its inverse.
func encode(text string) string                 { return zkpath.Encode(text) }
func decode(name string) (text string, ok bool) { return zkpath.Decode(name) }

// A node is one claim as its node's name shows it: what driver.Place asks, and a tag.
type node struct {
	name  string
	need  int // 1 of 1 for any exclusive claim
	limit int
	seq   int32
	tag   string // tells this node from all others; empty: an older pawl created it
}

const (
	exclusivePrefix = "p.x."
	sharedPrefix    = "p.s."
)

// nodePrefix is the name of a new node of c without the sequence number. The number does
// not tell a node from an earlier one: the servers remove an empty container, the next one
// counts from 0 again, and a late Leave or beat would find the node of another claim at the
// path of its own. The tag does: no two nodes ever have the same.
func nodePrefix(c driver.Claim) string {
	tag := tagOf(c.ID) + newNonce()[:tagSize]
	if c.Exclusive() {
		return exclusivePrefix + tag + "."
	}
	return fmt.Sprintf("%s%d.%d.%s.", sharedPrefix, c.Need, c.Limit, tag)
}

// tagSize is how many characters of a tag come from the claim's ID, so that a claim finds
// its own nodes without reading all; as many are random. Longer ones would make reading a
// line more expensive.
const tagSize = 8

func tagOf(id string) string { return id[:min(len(id), tagSize)] }

func newNonce() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// mayBeOf reports whether a node's name allows it to be of the claim with this ID.
func (n node) mayBeOf(id string) bool { return n.tag == "" || strings.HasPrefix(n.tag, tagOf(id)) }

func (n node) claim() driver.Claim { return driver.Claim{Need: n.need, Limit: n.limit} }

// errForeign says that a line has claims of another recipe.
var errForeign = errors.New("zklock: another program keeps its locks here")

// parseNode reads a node's name. A name that is not pawl's is ignored, ours false: it blocks
// no claim. One that ends in a sequence number, though, is the claim of another recipe,
// which neither waits for pawl's claims nor is waited for.
func parseNode(name string) (n node, ours bool, err error) {
	parts := strings.Split(name, ".")
	last := len(parts) - 1
	seq, serr := strconv.ParseInt(parts[last], 10, 32)
	tag := ""
	if len(parts)%2 == 0 {
		tag = parts[last-1]
	}
	switch {
	case serr != nil:
	case strings.HasPrefix(name, exclusivePrefix) && (len(parts) == 3 || len(parts) == 4):
		return node{name, 1, 1, int32(seq), tag}, true, nil
	case strings.HasPrefix(name, sharedPrefix) && (len(parts) == 5 || len(parts) == 6):
		need, err1 := strconv.Atoi(parts[2])
		limit, err2 := strconv.Atoi(parts[3])
		if driver.Join(err1, err2) == nil && 1 <= need && need < limit && limit <= driver.All {
			return node{name, need, limit, int32(seq), tag}, true, nil
		}
	}
	if sequential.MatchString(name) {
		return node{}, false, fmt.Errorf("%w: node %q", errForeign, name)
	}
	return node{}, false, nil
}

// sequential matches names that end as ZooKeeper's sequential nodes do: in ten digits, or a
// minus and nine or ten once the number has become negative.
var sequential = regexp.MustCompile(`[-0-9][0-9]{9}$`)

// A nodeData is what a claim's node says in its data, for operators and for a session that
// looks for its own nodes:
// "p1 <ZooKeeper session> <id> <try> <need> <limit> <session> <queue> <note>".
type nodeData struct {
	driver.Claim
	zkSession uint64
	session   string
}

const dataVersion = "p1"

func encodeData(zkSession uint64, session string, c driver.Claim) []byte {
	queue := 0
	if c.Queue {
		queue = 1
	}
	return fmt.Appendf(nil, "%s %016x %s %d %d %d %s %d %s", dataVersion, zkSession, c.ID, c.Try, c.Need, c.Limit, session, queue, c.Note)
}

// parseData reads a node's data; ok is false for data that is not pawl's.
func parseData(data []byte) (d nodeData, ok bool) {
	parts := strings.SplitN(string(data), " ", 9)
	if len(parts) != 9 || parts[0] != dataVersion {
		return nodeData{}, false
	}
	zkSession, err1 := strconv.ParseUint(parts[1], 16, 64)
	try, err2 := strconv.Atoi(parts[3])
	need, err3 := strconv.Atoi(parts[4])
	limit, err4 := strconv.Atoi(parts[5])
	d = nodeData{zkSession: zkSession, session: parts[6]}
	d.ID, d.Try, d.Need, d.Limit = parts[2], try, need, limit
	d.Queue, d.Note = parts[7] == "1", parts[8]
	return d, driver.Join(err1, err2, err3, err4) == nil
}

// leftData is what a holder writes into its node as it leaves.
var leftData = []byte("left")
