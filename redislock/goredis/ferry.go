package goredis

import (
	"context"
	"sync"
	"time"

	redis "github.com/redis/go-redis/v9"

	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/redislock"
)

// A ferry carries the calls of many goroutines to one server in few pieces. A call
// that finds a boat leaves at once. Calls that come while enough are under way
// leave together with the first that is back, in one pipeline; where several of
// them take or give back locks, one command does it for all. Boats may be late or
// never come back: who has waited for a while leaves without. Every trip has a
// connection of the client's pool, as any other command.
type ferry struct {
	c    redis.UniversalClient
	crew *driverkit.Pool

	mu     sync.Mutex // guards what follows
	out    int        // boats under way
	left   time.Time  // when the last one did
	next   []*redislock.Rider
	moored []*boat
}

const (
	few        = 2                // so many boats keep a near server busy
	many       = 8                // so many are enough for one that is far away
	shortTrip  = time.Millisecond // a boat that has been away for longer has far to go
	mostRiders = 256
)

// ride makes a call and comes back when ctx ends, which go-redis by itself would
// not notice while it reads.
func (f *ferry) ride(ctx context.Context, words []string) (redislock.Reply, error) {
	r := redislock.NewRider(words)
	f.launch(f.board(ctx, r))
	if err := await(ctx, r.Back, f.hurry); err != nil {
		return redislock.Reply{}, err // the rider is the ferry's now
	}
	a, _ := r.Alight() // every boat finds a way
	return a.Reply, a.Err
}

// board lets a rider wait for the next boat, and returns one that is to leave now,
// with all who wait.
func (f *ferry) board(ctx context.Context, r *redislock.Rider) *boat {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = append(f.next, r)
	if (f.out >= many || f.out >= few && time.Since(f.left) < shortTrip) && len(f.next) < mostRiders {
		return nil
	}
	b := f.boatLocked()
	if len(b.load) == 1 {
		b.ctx = unwatched{ctx} // a program's hooks may look into it
	}
	return b
}

// hurry lets those leave who wait.
func (f *ferry) hurry() {
	f.mu.Lock()
	var b *boat
	if len(f.next) > 0 {
		b = f.boatLocked()
	}
	f.mu.Unlock()
	f.launch(b)
}

// launch sends a boat off, if there is one.
func (f *ferry) launch(b *boat) {
	if b != nil {
		f.crew.Do(b.sail) // ends by the client's time limits; Close waits for it
	}
}

// boatLocked returns a boat with those who wait aboard.
func (f *ferry) boatLocked() (b *boat) {
	if n := len(f.moored); n > 0 {
		b, f.moored = f.moored[n-1], f.moored[:n-1]
	} else {
		b = newBoat(f)
	}
	f.out++
	f.departLocked(b)
	return b
}

func (f *ferry) departLocked(b *boat) {
	f.left = time.Now()
	b.load, f.next = f.next, b.load[:0]
}

// back takes those who wait aboard a boat that is back. It is not needed if there
// are none.
func (f *ferry) back(b *boat) (needed bool) {
	clear(b.load)
	b.ctx = context.Background()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.next) > 0 {
		f.departLocked(b)
		return true
	}
	f.out--
	if len(f.moored) < many {
		f.moored = append(f.moored, b)
	}
	return false
}

// A boat makes one trip after the other.
type boat struct {
	f    *ferry
	ctx  context.Context // of the trip
	load []*redislock.Rider
	trip redislock.Trip
	sail func()
}

func newBoat(f *ferry) *boat {
	b := &boat{f: f, ctx: context.Background()}
	b.trip.Send, b.sail = b.send, b.run
	return b
}

func (b *boat) run() {
	for needed := true; needed; needed = b.f.back(b) {
		b.trip.Make(b.load)
	}
}

// send never loses its way: the next piece goes by another connection.
func (b *boat) send(cmds [][]string, out []redislock.Answer) (lost bool) {
	if len(cmds) == 1 {
		cmd := command(b.ctx, cmds[0])
		_ = b.f.c.Process(b.ctx, cmd) // the answer is the command's
		out[0].Reply, out[0].Err = answer(cmd)
		return false
	}
	p, sent := queue(b.ctx, b.f.c, cmds)
	_, _ = p.Exec(b.ctx) // the answers are the commands'
	read(sent, out)
	return false
}
