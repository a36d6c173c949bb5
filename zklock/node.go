package zklock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/driver"
)

// encode makes a node's name of any text. Every byte that is not a letter, a
// digit or one of - _ . is written as %XX, and so is a dot at the front: "." and
// ".." are no names in ZooKeeper.
func encode(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// decode is the inverse of encode; ok is false for a name that encode never makes.
func decode(node string) (text string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(node); i++ {
		if node[i] != '%' {
			b.WriteByte(node[i])
			continue
		}
		if i+2 >= len(node) {
			return "", false
		}
		c, err := strconv.ParseUint(node[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	text = b.String()
	return text, encode(text) == node
}

// A child is one claim as its node's name shows it: what Place asks, and the mark.
type child struct {
	node  string // the name itself
	need  int    // 1 of 1 for any exclusive claim
	limit int
	seq   int32
	mark  string // tells this node from all others; empty: an older pawl made it
}

const (
	exclusiveMark = "p.x."
	sharedMark    = "p.s."
)

// childPrefix is the name of a new node of c without the sequence number. The number
// does not tell a node from an earlier one: when the servers have removed an empty
// container, the next one counts from 0 again, and a Leave or a beat that is late by
// so much would meet the node of somebody else at the path of its own. The mark
// does: no two nodes that were ever made have the same.
func childPrefix(c driver.Claim) string {
	mark := markOf(c.ID) + newBrand()[:markSize]
	if c.Exclusive() {
		return exclusiveMark + mark + "."
	}
	return fmt.Sprintf("%s%d.%d.%s.", sharedMark, c.Need, c.Limit, mark)
}

// markSize is how many characters of a mark are of the claim's ID, so that a claim
// finds its own nodes among all without asking for each; as many are random. Longer
// ones would make it dearer to read a line.
const markSize = 8

func markOf(id string) string { return id[:min(len(id), markSize)] }

// mayBe reports whether a node may be of the claim with this ID, by its name.
func (c child) mayBe(id string) bool { return c.mark == "" || strings.HasPrefix(c.mark, markOf(id)) }

// errForeign says that a line holds what another recipe has put there.
var errForeign = errors.New("zklock: another program keeps its locks here")

// parseChild reads a node's name. A name that is not ours is ignored, ours false:
// it blocks nobody. One that ends in a sequence number, though, is the claim of
// another recipe, which would neither wait for ours nor be waited for.
func parseChild(node string) (c child, ours bool, err error) {
	parts := strings.Split(node, ".")
	last := len(parts) - 1
	seq, serr := strconv.ParseInt(parts[last], 10, 32)
	mark := ""
	if len(parts)%2 == 0 {
		mark = parts[last-1]
	}
	switch {
	case serr != nil:
	case strings.HasPrefix(node, exclusiveMark) && (len(parts) == 3 || len(parts) == 4):
		return child{node, 1, 1, int32(seq), mark}, true, nil
	case strings.HasPrefix(node, sharedMark) && (len(parts) == 5 || len(parts) == 6):
		need, err1 := strconv.Atoi(parts[2])
		limit, err2 := strconv.Atoi(parts[3])
		if driver.Join(err1, err2) == nil && 1 <= need && need < limit && limit <= driver.All {
			return child{node, need, limit, int32(seq), mark}, true, nil
		}
	}
	if sequential(node) {
		return child{}, false, fmt.Errorf("%w: node %q", errForeign, node)
	}
	return child{}, false, nil
}

// sequential reports whether a name ends as ZooKeeper's sequential nodes do: in
// ten digits, or a minus and nine or ten once the number has become negative.
func sequential(node string) bool {
	if len(node) < 10 {
		return false
	}
	for _, c := range node[len(node)-9:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	c := node[len(node)-10]
	return c == '-' || c >= '0' && c <= '9'
}

func (c child) claim() driver.Claim { return driver.Claim{Need: c.need, Limit: c.limit} }

// A child's data says the rest: for people, and for who looks for its own. It is
// "p1 <life> <id> <try> <need> <limit> <session> <queue> <note>".
type details struct {
	driver.Claim
	life    uint64
	session string
}

const dataMark = "p1"

func claimData(life uint64, session string, c driver.Claim) []byte {
	queue := 0
	if c.Queue {
		queue = 1
	}
	return fmt.Appendf(nil, "%s %016x %s %d %d %d %s %d %s", dataMark, life, c.ID, c.Try, c.Need, c.Limit, session, queue, c.Note)
}

// parseData reads a child's data; ok is false for what is not ours.
func parseData(data []byte) (d details, ok bool) {
	parts := strings.SplitN(string(data), " ", 9)
	if len(parts) != 9 || parts[0] != dataMark {
		return details{}, false
	}
	life, err1 := strconv.ParseUint(parts[1], 16, 64)
	try, err2 := strconv.Atoi(parts[3])
	need, err3 := strconv.Atoi(parts[4])
	limit, err4 := strconv.Atoi(parts[5])
	d = details{life: life, session: parts[6]}
	d.ID, d.Try, d.Need, d.Limit = parts[2], try, need, limit
	d.Queue, d.Note = parts[7] == "1", parts[8]
	return d, driver.Join(err1, err2, err3, err4) == nil
}

// left is what a holder writes into its node as it leaves.
var left = []byte("left")
