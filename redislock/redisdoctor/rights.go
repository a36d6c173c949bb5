package redisdoctor

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/redislock/internal/keyspace"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

//go:embed rights.lua
var rightsScript string

// A right is a command that pawl sends, as an ACL names it.
type right struct {
	name  string
	words []string // an example of it
	soft  string   // what it costs to lack it, if locks work without; ""
}

// neededRights returns the rights that the URL needs; docs/redis.md lists the same. KEY
// and CHANNEL stand for a key and a channel below the prefix.
func (s *server) neededRights() []right {
	const late = "Waiters are not notified of their turn, and learn it only when they look again."
	const stays = "Subscriptions that nobody needs stay until the client ends."
	cluster, votes := s.url.Scheme == "redis-cluster", s.url.Scheme == "redlock"
	all := []right{
		of("evalsha", "0000000000000000000000000000000000000000", "1", "KEY"), of("exists", "KEY"), of("time"),
		of("get", "KEY"), of("mget", "KEY"), of("getset", "KEY", "x"), of("set", "KEY", "x"), of("del", "KEY"),
		of("pexpire", "KEY", "1"), of("pexpireat", "KEY", "1"), of("pttl", "KEY"),
		of("hget", "KEY", "f"), of("hgetall", "KEY"), of("hset", "KEY", "f", "x"), of("hmget", "KEY", "f"), of("hdel", "KEY", "f"),
		of("zadd", "KEY", "1", "m"), of("zrem", "KEY", "m"), of("zcard", "KEY"), of("zrank", "KEY", "m"), of("zscore", "KEY", "m"),
		of("zrange", "KEY", "0", "1"), of("zrangebyscore", "KEY", "0", "1"),
		of("hello", "3"), soft("The server logs each refused PING.", of("ping")),
		soft("pawl ls, watch and serve are denied; taking a lock is not.", of("scan", "0")),
	}
	if cluster || votes {
		all = append(all, of("info"))
	} else {
		all = append(all, soft("pawl cannot tell whether the server evicts locks.", of("info")))
	}
	if cluster {
		all = append(all, soft(late, of("spublish", "CHANNEL", "x")), of("ssubscribe", "CHANNEL"), soft(stays, of("sunsubscribe", "CHANNEL")),
			sub("cluster", "slots"), sub("cluster", "shards"), of("asking"))
	} else {
		all = append(all, soft(late, of("publish", "CHANNEL", "x")), of("subscribe", "CHANNEL"), soft(stays, of("unsubscribe", "CHANNEL")))
	}
	if s.Options.Replicas > 0 {
		all = append(all, of("wait", "1", "1"))
	}
	return all
}

func of(name string, args ...string) right {
	return right{name: name, words: append([]string{name}, args...)}
}

func soft(cost string, r right) right {
	r.soft = cost
	return r
}

func sub(name, command string) right {
	return right{name: name + "|" + command, words: []string{name, command}}
}

// rights says which rights the user lacks.
func rights(ctx context.Context, s *server) doctor.Finding {
	const check = "rights"
	if s.Options.WithoutScripts {
		return doctor.Finding{} // pawl uses whatever single commands the server lets it
	}
	space := keyspace.New(s.Options.Prefix, "", s.url.Scheme == "redis-cluster")
	key := space.Probe()
	if _, err := s.do(ctx, "EVAL", "return 1", "1", key); redisclient.Code(err) == "NOPERM" {
		if _, err := s.do(ctx, "EVAL", "return 1", "0"); err == nil {
			return doctor.Break(check, fmt.Sprintf("user %s has no right to the keys %s*", s.user, s.Options.Prefix),
				"No lock can be taken.", s.setUser("~"+s.Options.Prefix+"*"))
		}
		return doctor.Break(check, fmt.Sprintf("user %s lacks +eval; the other rights cannot be checked without it", s.user),
			"No lock can be taken.", s.setUser("+eval", "+evalsha"))
	}
	needed := s.neededRights()
	answers, err := s.ask(ctx, needed, key, space.Channel("probe"))
	if err != nil {
		return doctor.Warn(check, fmt.Sprintf("cannot be checked: %v", err), "A missing right fails a lock only when it is needed.", "apt-get install redis-server # 7.0.0 or newer")
	}
	var missing []right
	for i, r := range needed {
		if answers[i] == 0 {
			missing = append(missing, r)
		}
	}
	return s.judge(check, missing, len(needed))
}

// ask asks the server which of the rights the user has, see rights.lua.
func (s *server) ask(ctx context.Context, all []right, key, channel string) ([]int64, error) {
	call := []string{"EVAL", rightsScript, "0"}
	for _, r := range all {
		call = append(call, strconv.Itoa(len(r.words)))
		for _, w := range r.words {
			call = append(call, strings.NewReplacer("KEY", key, "CHANNEL", channel).Replace(w))
		}
	}
	m, err := s.do(ctx, call...)
	if err != nil {
		return nil, err
	}
	answers, err := m.AsIntSlice()
	if err != nil || len(answers) != len(all) || !slices.Contains(answers, 1) {
		return nil, fmt.Errorf("%s does not tell what the user may do", s.product())
	}
	return answers, nil
}

// judge says what it means that rights are missing.
func (s *server) judge(check string, missing []right, needed int) doctor.Finding {
	var names, costs []string
	channels := 0
	for _, r := range missing {
		names = append(names, "+"+r.name)
		if !slices.Contains(costs, r.soft) {
			costs = append(costs, r.soft)
		}
		if slices.Contains([]string{"publish", "subscribe", "spublish", "ssubscribe"}, r.name) {
			channels++
		}
	}
	found := fmt.Sprintf("user %s lacks %s", s.user, strings.Join(names, " "))
	switch {
	case len(missing) == 0:
		return doctor.Good(check, fmt.Sprintf("user %s has all %d that are needed", s.user, needed))
	case channels == 2: // the commands, or the channels
		pattern := "&" + s.Options.Prefix + "*"
		found, names = found+", or the right to the channels "+pattern, append(names, pattern)
	case !slices.Contains(costs, ""):
		return doctor.Warn(check, found, strings.Join(costs, " "), s.setUser(names...))
	}
	return doctor.Break(check, found, "Locks that need them are denied.", s.setUser(names...))
}
