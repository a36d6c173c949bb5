package goredis

import (
	"errors"
	"net"
	"strings"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/redislock"
)

// errMoved says that the server has ended a subscription: its slot is another
// node's now.
var errMoved = errors.New("goredis: the channel's slot has moved")

// moved reports whether a node says that a key is another's now.
func moved(err error) bool {
	var served redislock.ServerError
	return errors.As(err, &served) && strings.HasPrefix(string(served), "MOVED ")
}

func timedOut(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// plain makes an error of the server one of redislock's.
func plain(err error) error {
	var served redis.Error
	if errors.As(err, &served) && !errors.Is(err, redis.Nil) {
		return redislock.ServerError(served.Error())
	}
	return err
}
