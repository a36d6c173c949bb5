// Package natsbench measures locks in NATS: pawl, the usual recipe with a key-value
// bucket, and the two writes that every lock needs.
package natsbench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/bench/compare"
	"github.com/pawl-go/pawl/bench/pawlclient"
	"github.com/pawl-go/pawl/internal/testserver"
	_ "github.com/pawl-go/pawl/natslock" // nats:
)

// ttl is the TTL of every lease and key.
const ttl = 10 * time.Second

// Part starts a server and returns its measurements.
func Part(t testing.TB) compare.Part {
	s := testserver.NATS(t)
	version, err := serverVersion(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return compare.Part{
		Name: "nats",
		About: append([]string{
			"nats-server " + version + " on the same machine, buckets in files with one replica and the default sync_interval: nobody waits for the disk",
			"scale with a tenth of what other stores have: each beat is a write for each name, and each arrival writes its whole line",
			"leases and keys of 10 s; KV recipe: creates a key and deletes it, and while another has it watches it; bare: creates a key that was never used, and deletes it; publish: one message into a stream, with its acknowledgement",
		}, compare.Versions("github.com/nats-io/nats.go")...),
		PIDs: []int{s.PID()},
		Rows: rows(t, s, sizes{line: 100, processes: 16, held: 1000}),
	}
}

func serverVersion(addr string) (string, error) {
	conn, err := nats.Connect(addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectedServerVersion(), nil
}

// Openers are the contenders, by name.
var Openers = map[string]compare.Opener{
	"pawl":      func(addr string) opening { return pawlclient.Open("nats://"+addr, pawl.WithTTL(ttl)) },
	"KV recipe": func(addr string) opening { return open(addr, "recipe", newRecipe) },
	"bare":      func(addr string) opening { return open(addr, "bare", newBare) },
	"publish":   func(addr string) opening { return open(addr, "publish", newPublisher) },
}

type opening = func(context.Context) (compare.Locker, error)

func contenders(addr string, names ...string) (all []compare.Contender) {
	for _, name := range names {
		all = append(all, compare.Contender{Name: name, Open: Openers[name](addr)})
	}
	return all
}

// sizes are the numbers of waiting clients, processes and held locks.
type sizes struct{ line, processes, held int }

func rows(t testing.TB, s *testserver.Server, n sizes) []compare.Row {
	addr, pid := s.Addr(), s.PID()
	free := func(addr string) []compare.Contender { return contenders(addr, "KV recipe", "pawl", "bare") }
	wanted := contenders(addr, "pawl", "KV recipe")
	bare := func(factor float64) compare.Bound { return compare.Bound{Who: "pawl", Than: "bare", Factor: factor} }
	recipe := func(factor float64) []compare.Bound {
		return []compare.Bound{{Who: "pawl", Than: "KV recipe", Factor: factor}}
	}
	scale := pawlclient.Scale("nats://"+addr, compare.Store{PIDs: []int{pid}, Addrs: []string{addr}}, n.held)
	for i := range scale.Bounds {
		scale.Bounds[i].Why = "a beat writes the whole line of each name, and reads it before if others beat in that line too"
	}
	return []compare.Row{
		{Work: compare.Alone(pid), Length: 500 * time.Millisecond, Who: free(addr), Bounds: append(recipe(1), bare(0.8))},
		{Work: compare.Apart(128, pid), Length: 500 * time.Millisecond, Who: free(addr), Bounds: recipe(1)},
		{
			Work: compare.LatencyOver(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: free(compare.Delayed(t, addr, 10*time.Millisecond)),
			Bounds: []compare.Bound{{Who: "pawl", Than: "bare", Factor: 1.1, AtMost: true}},
		},
		{
			Work: compare.Handoff(10 * time.Millisecond), Length: 500 * time.Millisecond, Who: append(contenders(addr, "publish"), wanted...),
			Bounds: []compare.Bound{{Who: "pawl", Than: "publish", Factor: 3, AtMost: true}},
		},
		{Work: compare.Line(n.line, time.Millisecond, &messages{monitor: s.Ports()[1]}, pid), Who: wanted, Bounds: []compare.Bound{{Who: "pawl", Factor: 8, AtMost: true}}},
		{Work: compare.Rivals(16, pid), Length: 500 * time.Millisecond, Who: wanted, Bounds: recipe(1)},
		{Work: compare.Processes(n.processes, "nats", addr), Length: 500 * time.Millisecond, Who: wanted, Bounds: recipe(1)},
		{Work: compare.Together(64), Length: 500 * time.Millisecond, Who: wanted, Bounds: recipe(50)},
		scale,
	}
}

// open connects and returns a locker on a bucket of its own kind.
func open(addr, bucket string, with func(connection) compare.Locker) opening {
	return func(ctx context.Context) (compare.Locker, error) {
		conn, err := nats.Connect(addr)
		if err != nil {
			return nil, err
		}
		js, err := jetstream.New(conn)
		if err != nil {
			return nil, errors.Join(err, closed(conn))
		}
		kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, LimitMarkerTTL: time.Second})
		if err != nil {
			return nil, errors.Join(err, closed(conn))
		}
		return with(connection{conn, js, kv}), nil
	}
}

type connection struct {
	conn *nats.Conn
	js   jetstream.JetStream
	kv   jetstream.KeyValue
}

func (c connection) Close() error { return closed(c.conn) }

func closed(conn *nats.Conn) error {
	conn.Close()
	return nil
}

// keyOf returns the key for a name of a lock.
func keyOf(name string) string { return strings.ReplaceAll(name, "/", ".") }
