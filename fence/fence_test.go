package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"       // registers mysql
	_ "github.com/jackc/pgx/v5/stdlib"       // registers pgx
	_ "github.com/ncruces/go-sqlite3/driver" // registers sqlite3
	"github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/fence"
	"github.com/pawl-go/pawl/internal/recipetest"
)

// A resource is one value behind a mark.
type resource interface {
	begin(mode fence.Mode, token uint64) error
	write(token uint64, value string) error
	value() string
}

var kinds = map[string]func(t *testing.T) resource{
	"in process": func(*testing.T) resource { return &inProcess{} },
	"file":       func(t *testing.T) resource { return &inFile{filepath.Join(t.TempDir(), "state")} },
	"Redis":      newInRedis,
	"SQLite":     newInSQLite,
	"PostgreSQL": func(t *testing.T) resource {
		return newInSQL(t, fence.PostgreSQL, "pgx", "postgres://postgres@"+recipetest.PostgreSQL(t)+"/postgres?sslmode=disable")
	},
	"MariaDB": func(t *testing.T) resource {
		return newInSQL(t, fence.MySQL, "mysql", "root@tcp("+recipetest.MariaDB(t)+")/mysql")
	},
	"MariaDB, found rows": func(t *testing.T) resource { // counts what an UPDATE found, and not what it changed
		return newInSQL(t, fence.MySQL, "mysql", "root@tcp("+recipetest.MariaDB(t)+")/mysql?clientFoundRows=true")
	},
}

func TestMain(m *testing.M) { os.Exit(recipetest.Main(m)) }

func each(t *testing.T, test func(t *testing.T, r resource)) {
	for name, found := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, found(t))
		})
	}
}

type inProcess struct {
	guard fence.Guard
	state string
}

func (r *inProcess) begin(mode fence.Mode, token uint64) error { return r.guard.Begin(mode, token) }
func (r *inProcess) write(token uint64, value string) error {
	return r.guard.Do(fence.Write, token, func() error { r.state = value; return nil })
}
func (r *inProcess) value() string { return r.state }

type inFile struct{ path string }

func (r *inFile) begin(mode fence.Mode, token uint64) error {
	return fence.NewFile(r.path).Begin(mode, token)
}
func (r *inFile) write(token uint64, value string) error {
	return fence.NewFile(r.path).WriteFile(token, []byte(value), 0o600)
}
func (r *inFile) value() string {
	b, _ := os.ReadFile(r.path) // not there: nothing was written
	return string(b)
}

type inSQL struct {
	t             *testing.T
	db            *sql.DB
	marks         *fence.SQL
	table, insert string
}

func newInSQLite(t *testing.T) resource {
	return newInSQL(t, fence.SQLite, "sqlite3", "file:"+filepath.Join(t.TempDir(), "db")+"?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
}

// tables counts them: each test has two of its own.
var tables atomic.Int64

func newInSQL(t *testing.T, d fence.Dialect, driver, dsn string) resource {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(20)
	n := tables.Add(1)
	r := &inSQL{t: t, db: db, marks: fence.NewSQL(d, fmt.Sprint("marks", n)), table: fmt.Sprint("state", n)}
	r.insert = "INSERT INTO " + r.table + " VALUES (?)"
	if d == fence.PostgreSQL {
		r.insert = "INSERT INTO " + r.table + " VALUES ($1)"
	}
	if err := r.in(func(tx *sql.Tx) error {
		if err := r.marks.Create(t.Context(), tx); err != nil {
			return err
		}
		_, err := tx.Exec("CREATE TABLE " + r.table + " (value VARCHAR(100))")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *inSQL) in(do func(*sql.Tx) error) error {
	tx, err := r.db.Begin()
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (r *inSQL) begin(mode fence.Mode, token uint64) error {
	return r.in(func(tx *sql.Tx) error { return r.marks.Begin(r.t.Context(), tx, "state", mode, token) })
}

func (r *inSQL) write(token uint64, value string) error {
	return r.in(func(tx *sql.Tx) error {
		if err := r.marks.Check(r.t.Context(), tx, "state", fence.Write, token); err != nil {
			return err
		}
		if _, err := tx.Exec("DELETE FROM " + r.table); err != nil {
			return err
		}
		_, err := tx.Exec(r.insert, value)
		return err
	})
}

func (r *inSQL) value() (v string) {
	if err := r.db.QueryRow("SELECT value FROM " + r.table).Scan(&v); err != nil && !errors.Is(err, sql.ErrNoRows) {
		r.t.Error(err)
	}
	return v
}

type inRedis struct {
	t     *testing.T
	rdb   *redis.Client
	key   string
	marks *fence.Redis
}

func newInRedis(t *testing.T) resource {
	rdb := redis.NewClient(&redis.Options{Addr: recipetest.Redis(t)})
	t.Cleanup(func() { _ = rdb.Close() })
	eval := func(ctx context.Context, script string, keys []string, args ...any) (string, error) {
		return rdb.Eval(ctx, script, keys, args...).Text()
	}
	key := fmt.Sprint("state", tables.Add(1))
	return &inRedis{t, rdb, key, fence.NewRedis(eval, key+":fence")}
}

func (r *inRedis) begin(mode fence.Mode, token uint64) error {
	return r.marks.Begin(r.t.Context(), mode, token)
}
func (r *inRedis) write(token uint64, value string) error {
	_, err := r.marks.Do(r.t.Context(), fence.Write, token, "SET", r.key, value)
	return err
}
func (r *inRedis) value() string { return r.rdb.Get(r.t.Context(), r.key).Val() }

// base is as large as real tokens are: above what a float64 holds exactly.
const base = uint64(1) << 59

func TestAStaleWriterIsRefusedEveryTimeThoughTheNewHolderOnlyRead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r resource) {
		if err := r.write(base, "first"); err != nil {
			t.Fatal(err)
		}
		old, last := base, "first"
		for i := range uint64(200) {
			next := old + 1 + rand.Uint64N(3)
			mode := fence.Mode(i % 2) // it begins, to write or to read, and that is all
			if err := r.begin(mode, next); err != nil {
				t.Fatal(err)
			}
			err := r.write(old, "stale")
			if stale, ok := errors.AsType[*fence.StaleError](err); !errors.Is(err, fence.ErrStale) || !ok || stale.Token != old {
				t.Fatalf("stale writer %d: %v", i, err)
			}
			if i%20 == 0 && r.value() != last {
				t.Fatalf("stale writer %d has written %q", i, r.value())
			}
			old = next
		}
		if r.value() != last {
			t.Errorf("the value is %q", r.value())
		}
	})
}

func TestReadersStandBesideEachOtherAndNotBesideALaterWriter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r resource) {
		steps := []struct {
			mode  fence.Mode
			token uint64
			ok    bool
		}{
			{fence.Read, 0, false}, {fence.Write, 0, false},
			{fence.Read, 5, true}, {fence.Read, 3, true}, {fence.Read, 5, true},
			{fence.Write, 4, false}, {fence.Write, 5, false},
			{fence.Write, 6, true}, {fence.Write, 6, true},
			{fence.Read, 6, false}, {fence.Read, 5, false},
			{fence.Read, 9, true}, {fence.Write, 6, false}, {fence.Read, 7, true},
			{fence.Write, 10, true},
		}
		for i, s := range steps {
			token := s.token
			if token != 0 {
				token += base
			}
			if err := r.begin(s.mode, token); (err == nil) != s.ok || err != nil && !errors.Is(err, fence.ErrStale) {
				t.Fatalf("step %d, %v with token %d: %v", i, s.mode, s.token, err)
			}
		}
	})
}

func TestOfManyAtOnceTheNewestHasTheLastWord(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r resource) {
		var all sync.WaitGroup
		for i := range uint64(20) {
			all.Go(func() {
				token := base + i
				if err := r.write(token, fmt.Sprint(token)); err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if want := fmt.Sprint(base + 19); r.value() != want {
			t.Errorf("the last word is %s, not %s", r.value(), want)
		}
	})
}

func TestAMarkFileThatHoldsSomethingElseIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path+".fence", []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fence.NewFile(path).Begin(fence.Write, 1); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), ".fence") {
		t.Errorf("Begin: %v", err)
	}
}

func TestATableThatIsNoPlainNamePanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("it does not")
		}
	}()
	fence.NewSQL(fence.SQLite, "marks; DROP TABLE users")
}

func ExampleGuard() {
	var printer fence.Guard // what it guards belongs to this process

	fmt.Println(printer.Begin(fence.Write, 41))
	fmt.Println(printer.Begin(fence.Write, 42)) // the next holder begins
	err := printer.Do(fence.Write, 41, func() error {
		fmt.Println("printed")
		return nil
	})
	fmt.Println(errors.Is(err, fence.ErrStale))
	// Output:
	// <nil>
	// <nil>
	// true
}

// Two holders that know a file by different names are fenced from each other, also before
// the file exists.
func TestAFileHasOneFenceUnderAllItsNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"folder": "real", "link": "real/state", "second": "link", "absolute": filepath.Join(real, "state")} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skipf("no symbolic links: %v", err)
		}
	}
	paths := []string{"real/state", "link", "second", "absolute", "folder/state", "folder/../real/state"}
	token := uint64(0)
	for _, path := range paths {
		token += 2
		if err := fence.NewFile(filepath.Join(dir, path)).WriteFile(token, []byte(path), 0o600); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got, err := os.ReadFile(filepath.Join(real, "state")); err != nil || string(got) != path {
			t.Errorf("%s: the file has %q, %v", path, got, err)
		}
		for _, other := range paths {
			f := fence.NewFile(filepath.Join(dir, other))
			if err := f.Check(fence.Write, token-1); !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s: after a write as %s: %v", other, path, err)
			}
		}
		if path == paths[0] { // the others find it missing, too
			if err := os.Remove(filepath.Join(real, "state")); err != nil {
				t.Fatal(err)
			}
		}
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if err := fence.NewFile(loop).Begin(fence.Write, 1); err == nil {
		t.Error("a link to itself is no error")
	}
}
