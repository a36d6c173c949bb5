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

// A kind says which commands can be merged: those of one kind, if it is not "".
type kind string

// kindOf returns the kind of a command of the engine's.
func kindOf(words []string) kind {
	if words[0] != "EVALSHA" {
		return ""
	}
	switch words[1] {
	case enterScript.made().digest:
		if len(words) == 12 { // without a proposal
			return kind(words[5]) // one fence for all
		}
	case leaveScript.made().digest:
		return "leave"
	}
	return ""
}

// merge makes one command of several of one kind, to one node. It does the common
// case of each: it takes a name that nobody has and gives back one that nobody
// wants, at half the cost to the server. The reply to it has one for each, by
// split. Whole says that the server does not know the script.
func merge(k kind, cmds [][]string, whole bool) []string {
	sc, args := takesScript, 5*len(cmds)+1
	leaves := k == "leave"
	if leaves {
		sc, args = givebacksScript, 3*len(cmds)
	}
	sc.made()
	words := make([]string, 0, 3+args)
	if whole {
		words = append(words, "EVAL", sc.text)
	} else {
		words = append(words, "EVALSHA", sc.digest)
	}
	if leaves {
		words = append(words, strconv.Itoa(2*len(cmds)))
	} else {
		words = append(words, strconv.Itoa(2*len(cmds)+1), cmds[0][5])
	}
	for _, c := range cmds {
		words = append(words, c[3])
	}
	for _, c := range cmds {
		words = append(words, c[4])
	}
	for _, c := range cmds {
		if leaves {
			words = append(words, c[7])
		} else {
			words = append(words, c[8], c[9], c[10])
		}
	}
	return words
}

// split returns the i-th reply of a merged command. It is not ok if that command
// was not the common case: nothing was done for it, and it is to be sent itself.
func split(r Reply, i int) (Reply, bool) {
	if i >= len(r.Array) {
		return Reply{}, false
	}
	one := r.Array[i]
	return one, one.Text != "" || one.Int != 0
}
