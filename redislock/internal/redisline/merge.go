package redisline

import "github.com/pawl-go/pawl/redislock/internal/redisclient"

// The keys that enter and leave begin with.
const (
	holdKey = iota
	lineKey
	fenceKey // of enter only
)

// mergedEnter takes many free names with one script, at half the cost to the server. All
// calls of an engine on one node have the same fence.
var mergedEnter = &redisclient.Merge{
	Script: enterManyScript,
	Join: func(calls []*redisclient.Call) (keys, args []string) {
		keys, args = make([]string, 0, 2*len(calls)+1), make([]string, 0, 3*len(calls))
		keys = append(keys, calls[0].Keys[fenceKey])
		keys = appendKeys(keys, calls)
		for _, c := range calls {
			args = append(args, c.Args[:3]...) // without what only a claim that waits needs
		}
		return keys, args
	},
}

// mergedLeave gives back many names that no claim waits for with one script.
var mergedLeave = &redisclient.Merge{
	Script: leaveFreeScript,
	Join: func(calls []*redisclient.Call) (keys, args []string) {
		keys, args = make([]string, 0, 2*len(calls)), make([]string, 0, len(calls))
		keys = appendKeys(keys, calls)
		for _, c := range calls {
			args = append(args, c.Args...)
		}
		return keys, args
	},
}

// appendKeys appends the hold of each call and then the line of each.
func appendKeys(keys []string, calls []*redisclient.Call) []string {
	for _, at := range []int{holdKey, lineKey} {
		for _, c := range calls {
			keys = append(keys, c.Keys[at])
		}
	}
	return keys
}
