package rueidis

import (
	"net/url"

	redis "github.com/redis/rueidis"

	"github.com/pawl-go/pawl/redislock/internal/redisurl"
)

// parse reads a URL. client has the options that do not depend on it.
func parse(u *url.URL, client redis.ClientOption) (*redisurl.Target, error) {
	return redisurl.Parse(u, client)
}
