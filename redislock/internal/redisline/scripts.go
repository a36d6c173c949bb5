package redisline

import (
	"embed"

	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

//go:embed lua
var files embed.FS

func script(names ...string) *redisclient.Script {
	for i, name := range names {
		names[i] = "lua/" + name + ".lua"
	}
	return redisclient.NewScript(files, names...)
}

// A common case that needs few calls stands ahead of line.lua, so that it does not
// pay for the definitions in it.
var (
	enterScript  = script("enter_free", "line", "enter")
	shareScript  = script("line", "enter")
	leaveScript  = script("leave_unqueued", "line", "leave")
	lookScript   = script("look_holder", "line", "look")
	evictScript  = script("line", "evict")
	listScript   = script("line", "list")
	watchScript  = script("line", "watch")
	recordScript = script("record")
	rightsScript = script("rights")

	moveRenewScript = script("move_renew")
	moveLeaveScript = script("move_leave")

	enlistScript      = script("quorum", "quorum_enlist")
	rejoinScript      = script("quorum", "quorum_rejoin")
	quorumEnterScript = script("quorum", "quorum_enter", "quorum_enter_free", "quorum_enter_again", "line", "enter")
	quorumShareScript = script("quorum", "quorum_enter", "quorum_enter_again", "line", "enter")
	quorumLookScript  = script("quorum", "quorum_look", "look_holder", "line", "look")
	confirmScript     = script("quorum", "quorum_confirm")

	enterManyScript = script("enter_free_many")
	leaveFreeScript = script("leave_unqueued_many")
	lookManyScript  = script("line", "look_many")
	leaveManyScript = script("line", "leave_many")
)
