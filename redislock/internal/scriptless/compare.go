package scriptless

import (
	"context"
	"fmt"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/redislock/internal/redisclient"
)

// compareCommands change a key only if it still has a known value. Servers have
// different commands for that.
type compareCommands struct {
	remove func(key, value string) redisclient.Call
	renew  func(key, value, next, ttl string) redisclient.Call
}

// The known commands: of Valkey, of Redis 8.4, of Tair.
var (
	removeCommands = []func(key, value string) redisclient.Call{
		func(key, value string) redisclient.Call { return redisclient.Command("DELIFEQ", key, value) },
		func(key, value string) redisclient.Call { return redisclient.Command("DELEX", key, "IFEQ", value) },
		func(key, value string) redisclient.Call { return redisclient.Command("CAD", key, value) },
	}
	renewCommands = []func(key, value, next, ttl string) redisclient.Call{
		func(key, value, next, ttl string) redisclient.Call {
			return redisclient.Command("SET", key, next, "IFEQ", value, "PX", ttl)
		},
		func(key, value, next, ttl string) redisclient.Call {
			return redisclient.Command("CAS", key, value, next, "PX", ttl)
		},
	}
)

// probe finds the server's commands by trying them on a key that does not exist.
func probe(ctx context.Context, c redisclient.Client, key string) (*compareCommands, error) {
	knows := func(call redisclient.Call) (bool, error) {
		switch _, err := c.Do(ctx, call); redisclient.Code(err) {
		case "":
			return err == nil, redisclient.Wrap(err)
		case "ERR", "NOPERM":
			return false, nil
		default:
			return false, redisclient.Wrap(err)
		}
	}
	found := &compareCommands{}
	for _, remove := range removeCommands {
		ok, err := knows(remove(key, "probe"))
		if err != nil {
			return nil, err
		}
		if ok {
			found.remove = remove
			break
		}
	}
	for _, renew := range renewCommands {
		ok, err := knows(renew(key, "probe", "probe", "1"))
		if err != nil {
			return nil, err
		}
		if ok {
			found.renew = renew
			break
		}
	}
	if found.remove == nil || found.renew == nil {
		return nil, fmt.Errorf("redislock: %w: without scripts a server needs DELIFEQ, DELEX or CAD, and SET IFEQ or CAS; this one lacks one of them, or the user may not use it", driver.ErrUnsupported)
	}
	return found, nil
}
