package mysql

import (
	"context"
	"database/sql"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/pawl-go/pawl/driver"
)

func init() { driver.Register("mysql", openURL) }

const (
	defaultConns = 10
	beatConns    = 3 // neither a beat on a dead connection nor one that waits for a row delays the next
	knownParams  = "prefix, table_prefix, tls, timeout, max_conns, socket, multi_primary"
)

// openURL makes an engine with pools of its own. It does not connect.
func openURL(_ context.Context, u *url.URL) (driver.Engine, error) {
	cfg, conns, opts, err := configOf(u)
	if err != nil {
		return nil, err
	}
	return open(cfg, conns, opts)
}

// configOf reads what a URL says.
func configOf(u *url.URL) (cfg *mysql.Config, conns int, opts []Option, err error) {
	cfg = mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr = "tcp", address(u)
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	cfg.MultiStatements, cfg.ClientFoundRows = true, true
	cfg.Timeout = 10 * time.Second
	cfg.Logger = &mysql.NopLogger{} // the errors say the same
	cfg.Params = map[string]string{
		// A row that a guard has locked is not waited for much longer than a beat may take.
		"innodb_lock_wait_timeout": "1",
		// The server's defaults for these may not fit.
		"autocommit": "1", "sql_safe_updates": "0", "sql_select_limit": "18446744073709551615",
		"sql_mode": "'STRICT_TRANS_TABLES'", "completion_type": "0",
	}
	conns = defaultConns
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, 0, nil, driver.BadURL("mysql: the URL's parameters make no sense: write %%3B for ;")
	}
	for key, values := range q {
		value := values[len(values)-1]
		var err error
		switch key {
		case "prefix":
			opts = append(opts, WithPrefix(value))
		case "table_prefix":
			if _, err := tablesOf(value); err != nil {
				return nil, 0, nil, driver.BadURL("%v", err)
			}
			opts = append(opts, WithTablePrefix(value))
		case "tls":
			cfg.TLSConfig = value
		case "timeout":
			cfg.Timeout, err = time.ParseDuration(value)
		case "socket":
			if !driver.ShowableName(strings.ReplaceAll(value, "/", "")) {
				return nil, 0, nil, driver.BadURL("mysql: parameter socket is not a path")
			}
			cfg.Net, cfg.Addr = "unix", value
		case "max_conns":
			conns, err = strconv.Atoi(value)
			if err == nil && conns < 1 {
				err = strconv.ErrRange
			}
		case "multi_primary":
			if value != "allow" {
				return nil, 0, nil, driver.BadURL("mysql: parameter multi_primary makes no sense: known is allow")
			}
			opts = append(opts, WithMultiPrimary())
		default:
			return nil, 0, nil, driver.BadURL("mysql: unknown %s (known: %s)", driver.ShowParameter(u, key), knownParams)
		}
		if err != nil {
			return nil, 0, nil, driver.BadURL("mysql: parameter %s makes no sense", key)
		}
	}
	if cfg.DBName == "" {
		return nil, 0, nil, driver.BadURL("mysql: the URL names no database: write mysql://user:password@host:port/database")
	}
	if !driver.ShowableName(cfg.DBName) { // the server repeats it
		return nil, 0, nil, driver.BadURL("mysql: the database's name has one of ? = @ & ; : / in it: write mysql://user:password@host:port/database")
	}
	return cfg, conns, opts, nil
}

func address(u *url.URL) string {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "3306"
	}
	return net.JoinHostPort(host, port)
}

func open(cfg *mysql.Config, conns int, opts []Option) (*Engine, error) {
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		// Its text may repeat parts of the URL.
		return nil, driver.BadURL("mysql: the URL makes no sense: tls must be true, false, skip-verify or preferred")
	}
	o := &ownSource{db: sql.OpenDB(c), beats: sql.OpenDB(c)}
	o.db.SetMaxOpenConns(conns)
	o.db.SetMaxIdleConns(conns)
	o.beats.SetMaxOpenConns(beatConns)
	o.beats.SetMaxIdleConns(beatConns)
	for _, db := range []*sql.DB{o.db, o.beats} {
		db.SetConnMaxIdleTime(time.Minute)
		db.SetConnMaxLifetime(10 * time.Minute)
	}
	e, err := newEngine(o, opts)
	if err != nil {
		_ = o.close()
		return nil, driver.BadURL("%v", err)
	}
	return e, nil
}
