package postgres

import (
	"context"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl/driver"
)

func init() {
	driver.Register("postgres", openURL)
	driver.Register("postgresql", openURL)
}

// known are the parameters of a URL beside prefix and table_prefix: those of libpq that
// pgx reads, and those of its pool. pgx would send any other to the server as a setting.
var known = []string{
	"application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname", "default_query_exec_mode",
	"fallback_application_name", "host", "krbspn", "krbsrvname", "options", "passfile", "password", "pool_health_check_period",
	"pool_max_conn_idle_time", "pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conns",
	"pool_min_conns", "port", "require_auth", "search_path", "service", "servicefile", "sslcert", "sslinline", "sslkey",
	"sslmode", "sslnegotiation", "sslpassword", "sslrootcert", "sslsni", "statement_cache_capacity", "target_session_attrs",
	"timezone", "user",
}

// hostTimeout bounds a connection to one host of several, unless the URL does: pgx tries them
// in order, and would wait for ever for one that accepts connections and then hangs.
const hostTimeout = 3 * time.Second

// openURL makes an engine with a pool of its own. It does not connect.
func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	var opts []Option
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, driver.BadURL("postgres: the URL's parameters make no sense: write %%3B for ;")
	}
	for key, values := range q {
		switch value := values[len(values)-1]; {
		case key == "prefix":
			opts = append(opts, WithPrefix(value))
			q.Del(key)
		case key == "table_prefix":
			if _, err := tablesOf(value); err != nil {
				return nil, driver.BadURL("%v", err)
			}
			opts = append(opts, WithTablePrefix(value))
			q.Del(key)
		case !slices.Contains(known, key):
			return nil, driver.BadURL("postgres: unknown %s (known: prefix, table_prefix, %s)", driver.ShowParameter(u, key), strings.Join(known, ", "))
		case key == "client_encoding" && !isUTF8(value):
			return nil, driver.BadURL("postgres: client_encoding must be UTF8: in another encoding the same name would be another lock")
		case !isShowable(key, value):
			return nil, driver.BadURL("postgres: parameter %s makes no sense", key)
		}
	}
	if !isShowable("dbname", strings.TrimPrefix(u.Path, "/")) {
		return nil, driver.BadURL("postgres: the database's name has one of ? = @ & ; : / in it: write %s", form)
	}
	cfg, err := poolConfig(u, q)
	if err != nil {
		return nil, driver.BadURL("postgres: %s", reason(u, q))
	}
	cfg.ConnConfig.RuntimeParams["client_encoding"] = "UTF8" // else it is the database's
	if c := cfg.ConnConfig; c.ConnectTimeout == 0 && slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != c.Host || f.Port != c.Port }) {
		c.ConnectTimeout = hostTimeout
	}
	if d := driver.DialerOf(ctx); d != nil {
		cfg.ConnConfig.DialFunc = pgconn.DialFunc(d)
		cfg.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) {
			return []string{host}, nil // the dialer looks it up
		}
	}
	return openConfig(cfg, q.Has("default_query_exec_mode"), opts)
}

func openConfig(cfg *pgxpool.Config, chosen bool, opts []Option) (*Engine, error) {
	src := &ownSource{}
	if !chosen {
		src.detectPooler(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, driver.BadURL("postgres: the parameters of the pool make no sense")
	}
	src.poolSource = poolSource{pool: pool, own: true}
	e, err := newEngine(src, opts)
	if err != nil {
		pool.Close()
		return nil, driver.BadURL("%v", err)
	}
	return e, nil
}

const form = "postgres://user:password@host:port/database"

func poolConfig(u *url.URL, q url.Values) (*pgxpool.Config, error) {
	bare := *u
	bare.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // pgx, like libpq, does not read + as a space
	return pgxpool.ParseConfig(bare.String())
}

// reason says what is wrong with a URL that pgx refuses. The error of pgx repeats the URL
// with its password, so the parameter at fault is found by leaving each out.
func reason(u *url.URL, q url.Values) string {
	for _, key := range slices.Sorted(maps.Keys(q)) {
		others := maps.Clone(q)
		others.Del(key)
		if _, err := poolConfig(u, others); err == nil {
			return "parameter " + key + " makes no sense, or names a file that cannot be used"
		}
	}
	return "the URL makes no sense: it is not of the form " + form
}

// isShowable reports whether a parameter may be shown in errors: pgx and the server
// repeat these.
func isShowable(key, value string) bool {
	switch key {
	case "dbname":
		return driver.ShowableName(value)
	case "user":
		return !strings.ContainsAny(value, "?=&;:/")
	case "host", "port":
		for part := range strings.SplitSeq(value, ",") {
			if _, err := netip.ParseAddr(part); err != nil && !driver.ShowableName(strings.ReplaceAll(part, "/", "")) {
				return false
			}
		}
	}
	return true
}
