package redisline

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// groupSize is the number of claims of one name that one script prolongs or ends: it
// stops the server for less than a millisecond.
const groupSize = 250

// groups divides claims into those that one call is about, in the order of the first
// claim of each. key says which claims may be together; a claim with a key of "" is alone.
func groups(cs []driver.Claim, key func(*driver.Claim) string) [][]int {
	all, each := make([][]int, 0, len(cs)), make([]int, len(cs))
	open := map[string]int{} // the group that has room
	for i := range cs {
		each[i] = i
		k := key(&cs[i])
		at, ok := open[k]
		if k == "" || !ok || len(all[at]) == groupSize {
			open[k] = len(all)
			all = append(all, each[i:i+1:i+1])
			continue
		}
		all[at] = append(all[at], i)
	}
	return all
}

// pick returns the claims with these indexes.
func pick(cs []driver.Claim, at []int) []driver.Claim {
	some := make([]driver.Claim, len(at))
	for k, i := range at {
		some[k] = cs[i]
	}
	return some
}

// answersOf sends the calls of a chunk, and returns the indexes of the claims that they
// are about and the answer for each of these.
func (s *session) answersOf(ctx context.Context, send redisclient.Many, chunk []int, calls []redisclient.Call, of [][]int) (claims []int, answers []redisclient.Answer, sent time.Time) {
	sent = time.Now()
	out := redisclient.SendSome(ctx, send, calls, chunk)
	for k, i := range chunk {
		claims = append(claims, of[i]...)
		if len(of[i]) == 1 {
			answers = append(answers, out[k])
			continue
		}
		if out[k].Err == nil && len(out[k].Array) != len(of[i]) {
			out[k].Err = errBadReply
		}
		for n := range of[i] {
			a := redisclient.Answer{Err: out[k].Err}
			if a.Err == nil {
				a.Reply = out[k].Array[n]
			}
			answers = append(answers, a)
		}
	}
	return claims, answers, sent
}
