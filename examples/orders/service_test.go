package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/once"
	_ "github.com/pawl-go/pawl/redislock/rueidis"
	_ "github.com/pawl-go/pawl/sqllock/postgres"
)

// serveEnv makes the test binary the service: store, policy, and the driver and DSN of
// the ledger or the file in which effects are noted, one a line.
const serveEnv = "PAWL_TEST_ORDERS"

func TestMain(m *testing.M) {
	role := os.Getenv(serveEnv)
	if role == "" {
		flag.Parse()
		if err := flag.Set("test.parallel", "4"); err != nil { // most of them wait for leases to expire
			panic(err)
		}
		os.Exit(m.Run())
	}
	if err := serve(context.Background(), strings.Split(role, "\n")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve says where it listens, and books orders until it is killed or its starter has
// died.
func serve(ctx context.Context, role []string) error {
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	c, err := pawl.Open(ctx, role[0], pawl.WithTTL(2*time.Second))
	if err != nil {
		return err
	}
	book, err := booking(c, role)
	if err != nil {
		return err
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(at.Addr())
	return http.Serve(at, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		receipt, err := book(r.Context(), strings.TrimPrefix(r.URL.Path, "/"))
		switch {
		case err == nil:
			fmt.Fprint(w, receipt)
		case errors.Is(err, once.ErrUnknownOutcome):
			w.WriteHeader(http.StatusConflict)
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
}

// booking is how an order is booked: in the ledger, or elsewhere under once.Do.
func booking(c *pawl.Client, role []string) (func(ctx context.Context, order string) (string, error), error) {
	if role[1] == "ledger" {
		records, err := c.Records()
		if err != nil {
			return nil, err
		}
		db, err := sql.Open(role[2], role[3])
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(16)
		return (&ledger{db, records, role[4]}).book, nil
	}
	effects, err := os.OpenFile(role[2], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	policy := once.WithRetry()
	if role[1] == "hold" {
		policy = once.WithHold()
	}
	return func(ctx context.Context, order string) (string, error) {
		ran := false
		receipt, err := once.Do(ctx, c, order, func(context.Context) (string, error) {
			ran = true
			fmt.Fprintf(effects, "begin %s\n", order)
			time.Sleep(20 * time.Millisecond) // the charge: long enough to be killed in
			return "receipt of " + order, nil
		}, policy)
		if err == nil && ran {
			fmt.Fprintf(effects, "end %s\n", order)
		}
		return receipt, err
	}, nil
}
