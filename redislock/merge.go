package redislock

import (
	_ "embed"
	"strconv"
)

//go:embed lua/takes.lua
var takesLua string

//go:embed lua/givebacks.lua
var givebacksLua string

var (
	takesScript     = newScript(takesLua)
	givebacksScript = newScript(givebacksLua)
)

// A Kind says which commands can be merged: those of one kind, if it is not "".
type Kind string

// KindOf returns the kind of a command. Its words must be the engine's own.
func KindOf(words []string) Kind {
	if words[0] != "EVALSHA" {
		return ""
	}
	switch words[1] {
	case enterScript.made().digest:
		if len(words) == 10 { // without a proposal
			return Kind(words[5]) // one fence for all
		}
	case leaveScript.made().digest:
		return "leave"
	}
	return ""
}

// Merge makes one command of several of one kind, for an adapter that has them at
// hand, to one node. It does the common case of each: it takes a name that nobody
// has and gives back one that nobody wants, at half the cost to the server. The
// reply to it has one for each, by [Split]. Whole says that the server does not
// know the script.
func Merge(k Kind, cmds [][]string, whole bool) []string {
	sc, per, args := takesScript, 10, 5*len(cmds)+1
	if k == "leave" {
		sc, per, args = givebacksScript, 6, 3*len(cmds)
	}
	sc.made()
	words := make([]string, 0, 3+args)
	if whole {
		words = append(words, "EVAL", sc.text)
	} else {
		words = append(words, "EVALSHA", sc.digest)
	}
	if per == 6 {
		words = append(words, strconv.Itoa(2*len(cmds)))
	} else {
		words = append(words, strconv.Itoa(2*len(cmds)+1), cmds[0][5])
	}
	for _, c := range cmds {
		words = append(words, c[3], c[4])
	}
	for _, c := range cmds {
		if per == 6 {
			words = append(words, c[5])
		} else {
			words = append(words, c[6], c[7], c[8])
		}
	}
	return words
}

// Split returns the i-th reply of a merged command. It is not ok if that command
// was not the common case: nothing was done for it, and it is to be sent itself.
func Split(r Reply, i int) (Reply, bool) {
	if i >= len(r.Array) {
		return Reply{}, false
	}
	one := r.Array[i]
	return one, one.Text != "" || one.Int != 0
}

// Unknown reports whether the server does not know the script of a command, so
// that nothing was done and it is to be sent whole.
func Unknown(err error) bool { return code(err) == "NOSCRIPT" }
