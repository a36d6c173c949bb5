package postgres

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

// databaseIn makes a database of an encoding, and returns the URL of its tables.
func databaseIn(t *testing.T, encoding string) string {
	t.Helper()
	name := "enc_" + strings.ToLower(encoding)
	if _, err := serverPool(t).Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING '"+encoding+"' LC_COLLATE 'C' LC_CTYPE 'C'"); err != nil {
		t.Fatal(err)
	}
	store := strings.Replace(urlOf(shared.server.Addr()), "/postgres?", "/"+name+"?", 1)
	if err := openStore(t, store).Migrate(t.Context()); err != nil {
		t.Fatalf("%s: %v", encoding, err)
	}
	return store
}

// A name is one lock whatever the encoding of the database, and of clients that are not
// refused.
func TestANameIsOneLockInEveryEncoding(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"UTF8", "LATIN1", "SQL_ASCII"} {
		t.Run(encoding, func(t *testing.T) {
			store := databaseIn(t, encoding)
			const name = "straße/é"
			c := openClient(t, store, pawl.WithTTL(time.Minute))
			l, err := c.Mutex(name).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if line, err := c.Line(t.Context(), name); err != nil || len(line) != 1 || line[0].Name != name {
				t.Errorf("the line: %+v, %v", line, err)
			}
			for _, of := range []string{"UTF8", "LATIN1", "SQL_ASCII"} {
				for how, engine := range enginesIn(t, store, of) {
					other, err := pawl.New(engine).Mutex(name).TryLock(t.Context())
					switch {
					case err == nil:
						t.Errorf("%s, client_encoding %s: two hold, tokens %d and %d", how, of, l.Token(), other.Token())
					case of == "UTF8" && !errors.Is(err, pawl.ErrHeld),
						of != "UTF8" && (!errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), "client_encoding")):
						t.Errorf("%s, client_encoding %s: %v", how, of, err)
					}
				}
			}
			if err := l.Unlock(); err != nil {
				t.Error(err)
			}
			_, err = c.Mutex("日本").TryLock(t.Context())
			if (encoding == "LATIN1") != errors.Is(err, driver.ErrUnsupported) {
				t.Errorf("a name that the database may not be able to store: %v", err)
			}
		})
	}
}

// enginesIn are engines on clients of the user's own in an encoding, set as the pool is
// configured, and left behind on its connection.
func enginesIn(t *testing.T, store, encoding string) map[string]driver.Engine {
	t.Helper()
	all := map[string]driver.Engine{}
	for how, params := range map[string]string{"configured": "&client_encoding=" + encoding, "left behind": ""} {
		cfg, err := pgxpool.ParseConfig(store + params + "&pool_max_conns=2")
		if err != nil {
			t.Fatal(err)
		}
		if params == "" {
			cfg.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		e, err := New(pool)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		if params == "" {
			if _, err := e.Open(t.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute}); err != nil {
				t.Fatal(err)
			}
			leaveBehind(t, pool, 2, "SET client_encoding = '"+encoding+"'")
		}
		all[how] = e
	}
	return all
}

// leaveBehind runs a statement on all connections of a pool.
func leaveBehind(t *testing.T, pool *pgxpool.Pool, conns int, text string) {
	t.Helper()
	for range conns {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release() // after the loop, so that each is another one
		if _, err := c.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
}

// PgBouncer reports the encoding as its client has spelled it.
func TestUTF8IsKnownInEverySpelling(t *testing.T) {
	t.Parallel()
	serverPool(t)
	bouncer := testserver.PgBouncer(t, shared.server, "transaction").Addr()
	for _, encoding := range []string{"utf8", "UTF-8", "unicode"} {
		pool, err := pgxpool.New(t.Context(), urlOf(bouncer)+"&default_query_exec_mode=exec&client_encoding="+encoding)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		e, err := New(pool)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if l, err := pawl.New(e).Mutex(t.Name() + encoding).TryLock(t.Context()); err != nil {
			t.Errorf("%s: %v", encoding, err)
		} else if err := l.Unlock(); err != nil {
			t.Errorf("%s: %v", encoding, err)
		}
	}
}

// A URL that asks for another encoding than UTF8 is refused.
func TestAURLOfAnotherEncodingIsRefused(t *testing.T) {
	for encoding, refused := range map[string]bool{"UTF8": false, "utf-8": false, "LATIN1": true, "auto": true} {
		u, err := url.Parse(urlOf("127.0.0.1:1") + "&client_encoding=" + encoding)
		if err != nil {
			t.Fatal(err)
		}
		e, err := openURL(t.Context(), u)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "client_encoding") {
			t.Errorf("%s: %v", encoding, err)
		}
		if err == nil {
			e.Close()
		}
	}
}
