package redislock

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/driver"
)

// A comparer is how a server without scripts changes a key only if it still has
// a known value. Servers have different words for it.
type comparer struct {
	remove func(key, value string) []string
	renew  func(key, value, next, ttl string) []string
}

// The words there are: Valkey's, Redis's, Tair's.
var (
	removers = []func(key, value string) []string{
		func(key, value string) []string { return []string{"DELIFEQ", key, value} },
		func(key, value string) []string { return []string{"DELEX", key, "IFEQ", value} },
		func(key, value string) []string { return []string{"CAD", key, value} },
	}
	renewers = []func(key, value, next, ttl string) []string{
		func(key, value, next, ttl string) []string {
			return []string{"SET", key, next, "IFEQ", value, "PX", ttl}
		},
		func(key, value, next, ttl string) []string { return []string{"CAS", key, value, next, "PX", ttl} },
	}
)

// probe finds the server's words by trying them on a key that does not exist.
func probe(ctx context.Context, c Client, keys layout) (*comparer, error) {
	key := keys.prefix + mark + "probe"
	knows := func(words []string) (bool, error) {
		switch _, err := c.Do(ctx, key, words); code(err) {
		case "":
			return err == nil, err
		case "ERR", "NOPERM":
			return false, nil
		default:
			return false, err
		}
	}
	cmp := &comparer{}
	for _, remove := range removers {
		ok, err := knows(remove(key, "probe"))
		if err != nil {
			return nil, fault(err)
		}
		if ok {
			cmp.remove = remove
			break
		}
	}
	for _, renew := range renewers {
		ok, err := knows(renew(key, "probe", "probe", "1"))
		if err != nil {
			return nil, fault(err)
		}
		if ok {
			cmp.renew = renew
			break
		}
	}
	if cmp.remove == nil || cmp.renew == nil {
		return nil, fmt.Errorf("redislock: %w: without scripts a server needs DELIFEQ, DELEX or CAD, and SET IFEQ or CAS; this one has not both, or the user may not", driver.ErrUnsupported)
	}
	return cmp, nil
}
