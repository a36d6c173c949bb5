package mysql

import (
	"context"
	"database/sql"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

func init() { driver.Register("mysql", openURL) }

const (
	defaultConns = 10
	beatConns    = 3 // neither a beat on a dead connection nor one that waits for a row delays the next
)

// openURL makes an engine with pools of its own. It does not connect.
func openURL(ctx context.Context, u *url.URL) (driver.Engine, error) {
	cfg, conns, opts, err := configOf(u)
	if err != nil {
		return nil, err
	}
	if d := driver.DialerOf(ctx); d != nil {
		cfg.DialFunc = d
	}
	return open(cfg, conns, opts)
}

// configOf reads what a URL says.
func configOf(u *url.URL) (cfg *mysql.Config, conns int, opts []Option, err error) {
	r := driverkit.ReadURL("mysql", u)
	cfg = newConfig()
	cfg.User, cfg.Passwd = r.Login()
	cfg.Net, cfg.Addr = "tcp", address(u)
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	switch {
	case cfg.DBName == "":
		r.Fail("the URL names no database: write mysql://user:password@host:port/database")
	case !driver.ShowableName(cfg.DBName): // the server repeats it
		r.Fail("the database's name has one of ? = @ & ; : / in it: write mysql://user:password@host:port/database")
	}
	if prefix, ok := r.Text("prefix"); ok {
		opts = append(opts, WithPrefix(prefix))
	}
	if prefix, ok := r.Text("table_prefix"); ok {
		if _, err := tablesOf(prefix); err != nil {
			return nil, 0, nil, driver.BadURL("%v", err)
		}
		opts = append(opts, WithTablePrefix(prefix))
	}
	if u.Query().Get("tls") == "preferred" { // TLS if the server has it, without a check of its certificate
		cfg.TLSConfig, _ = r.Text("tls")
	} else {
		cfg.TLS = r.TLS(false)
	}
	cfg.Timeout = r.Duration("timeout", 10*time.Second, 0)
	conns = r.Number("max_conns", defaultConns, 1)
	if socket, ok := r.Text("socket"); ok {
		if !driver.ShowableName(strings.ReplaceAll(socket, "/", "")) {
			r.Fail("parameter socket is not a path")
		}
		cfg.Net, cfg.Addr = "unix", socket
	}
	if r.OneOf("multi_primary", "refuse", "allow") == "allow" {
		opts = append(opts, WithMultiPrimary())
	}
	return cfg, conns, opts, r.Err()
}

func newConfig() *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.MultiStatements, cfg.ClientFoundRows = true, true
	cfg.Logger = &mysql.NopLogger{} // the errors say the same
	cfg.Params = map[string]string{
		// A row that a guard has locked is not waited for much longer than a beat may take.
		"innodb_lock_wait_timeout": "1",
		// The server's defaults for these may not fit.
		"autocommit": "1", "sql_safe_updates": "0", "sql_select_limit": "18446744073709551615",
		"sql_mode": "'STRICT_TRANS_TABLES'", "completion_type": "0",
	}
	return cfg
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
		return nil, driver.BadURL("mysql: the URL makes no sense") // err may repeat parts of it
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
