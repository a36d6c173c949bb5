package main

import (
	"database/sql"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/pawl-go/pawl/internal/testserver"
)

// migrated runs migrate on a new database: without tables, then with them, then
// again.
func migrated(t *testing.T, store string) {
	t.Helper()
	pawl := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, errOut strings.Builder
		if code := run(append([]string{"-s", store}, args...), strings.NewReader(""), &out, &errOut); code != want {
			t.Errorf("pawl %s: exit code %d, want %d: %s", strings.Join(args, " "), code, want, errOut.String())
		}
		return out.String(), errOut.String()
	}
	if _, said := pawl(exitUnavailable, "ls"); !strings.Contains(said, "pawl migrate") {
		t.Errorf("without tables ls says %q", said)
	}
	printed, _ := pawl(0, "migrate", "--print")
	if !strings.Contains(printed, "CREATE TABLE IF NOT EXISTS pawl_head") {
		t.Errorf("--print shows %q", printed)
	}
	for range 2 {
		pawl(0, "migrate")
	}
	pawl(0, "ls")
}

func TestMigrateMakesTheTablesOfPostgreSQL(t *testing.T) {
	t.Parallel()
	s := testserver.PostgreSQL(t)
	store := "postgres://postgres@" + s.Addr() + "/postgres?sslmode=disable"
	migrated(t, store)
	for params, says := range map[string]string{
		"&table_prefix=nowhere.pawl_":                      "CREATE SCHEMA nowhere",
		"&options=-c%20default_transaction_read_only%3Don": "default_transaction_read_only",
	} {
		var out, said strings.Builder
		code := run([]string{"-s", store + params, "migrate"}, strings.NewReader(""), &out, &said)
		if code == 0 || !strings.Contains(said.String(), says) || strings.Contains(said.String(), "run pawl migrate") || strings.Contains(said.String(), "replica") {
			t.Errorf("%s: exit code %d, %s", params, code, said.String())
		}
	}
}

func TestMigrateMakesTheTablesOfMariaDB(t *testing.T) {
	t.Parallel()
	s := testserver.MariaDB(t)
	db, err := sql.Open("mysql", "root@tcp("+s.Addr()+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE DATABASE locks"); err != nil {
		t.Fatal(err)
	}
	migrated(t, "mysql://root@"+s.Addr()+"/locks")
}
