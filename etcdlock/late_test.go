package etcdlock

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// A detour holds back a client's next transaction that puts a key.
type detour struct {
	mu     sync.Mutex   // guards armed
	armed  bool         // the next one is held back
	arrive func() error // sends what was held back
}

// hold arms the detour. What it returns has the request arrive.
func (d *detour) hold() (arrive func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = true
	return func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.arrive()
	}
}

// option is a client's option.
func (d *detour) option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if !puts(request) || !d.takes(func() error { return invoke(context.WithoutCancel(ctx), method, request, reply, cc) }) {
			return invoke(ctx, method, request, reply, cc, opts...)
		}
		return status.Error(codes.Unavailable, "the connection broke")
	})
}

func (d *detour) takes(send func() error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.armed {
		return false
	}
	d.armed, d.arrive = false, send
	return true
}

// puts reports whether a request is a transaction that puts a key.
func puts(request any) bool {
	txn, ok := request.(*pb.TxnRequest)
	if !ok {
		return false
	}
	for _, op := range txn.Success {
		if op.GetRequestPut() != nil {
			return true
		}
	}
	return false
}

// beat returns what a beat says of one claim.
func beat(t testing.TB, s *session, c driver.Claim) driver.Standing {
	t.Helper()
	out := make([]driver.Standing, 1)
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil {
		t.Fatalf("Beat: %v", err)
	}
	return out[0]
}

// evict breaks the claim at the head of a line.
func evict(t testing.TB, e *Engine, name string) {
	t.Helper()
	line, err := e.Line(t.Context(), name)
	if err != nil || len(line) == 0 {
		t.Fatalf("Line: %+v, %v", line, err)
	}
	if err := e.Evict(t.Context(), line[0]); err != nil {
		t.Fatalf("Evict: %v", err)
	}
}

// An Enter is held up on its way, and given up. Its repeat is granted over another
// connection and evicted, and a rival holds. Then the first request lands.
func TestAnEnterThatArrivesAfterAnEvictionIsAnotherClaim(t *testing.T) {
	t.Parallel()
	const rounds = 5
	late := 1500 * time.Millisecond
	server := common(t)
	near := engine(t, []string{server.Addr()})
	rival := open(t, near, unbeaten)
	landed, both := 0, 0
	for range rounds {
		name := "name/" + newID()
		proxies := []*faultproxy.Proxy{faultproxy.New(t, server.Addr()), faultproxy.New(t, server.Addr())}
		s := open(t, engine(t, []string{proxies[0].Addr(), proxies[1].Addr()}), unbeaten)
		s.meet(&spot{claim: mutex(name)}, true) // else the line must be empty for the first Enter
		a, b := mutex(name), mutex(name)
		var once sync.Once
		delay := late
		for _, p := range proxies {
			p.OnChunk(func(k faultproxy.Chunk) {
				if k.Dir == faultproxy.ToServer && k.Stage == faultproxy.Arrived && about(name)(k.Data) {
					once.Do(func() { p.Delay(faultproxy.ToServer, delay) })
				}
			})
		}
		sent := time.Now()
		expect(t, "Enter that is held up", enterFor(t, s, a, 100*time.Millisecond), context.DeadlineExceeded)
		for begun := time.Now(); enterFor(t, s, a, late/5) != nil; {
			if time.Since(begun) > 8*soon {
				t.Fatal("no Enter over the other connection was answered")
			}
		}
		if time.Since(sent) > late*2/3 {
			late *= 2 // what was held up lands too soon on this machine
		}
		evict(t, near, name)
		hold(t, rival, b)
		for begun := time.Now(); len(keysOf(t, near, name)) == 1 && time.Since(begun) < late+soon; {
			time.Sleep(10 * time.Millisecond) // nothing tells when it lands
		}
		for _, p := range proxies {
			p.OnChunk(nil)
			p.Heal()
		}
		if len(keysOf(t, near, name)) == 1 {
			continue // the server has dropped it
		}
		landed++
		if st := beat(t, s, a); !st.Gone {
			both++
			t.Errorf("Beat: %+v of a claim that was evicted, while a rival holds", st)
		}
		if keys := keysOf(t, near, name); len(keys) != 1 {
			t.Errorf("in line are %q, not the rival alone", keys)
		}
		expect(t, "Leave of what was evicted", s.Leave(t.Context(), a), driver.ErrGone)
	}
	t.Logf("%d of %d landed; in %d both held", landed, rounds, both)
	if landed == 0 {
		t.Error("no request landed late")
	}
}

// enterFor enters c with little time.
func enterFor(t testing.TB, s *session, c driver.Claim, d time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	_, err := s.Enter(ctx, c)
	return err
}

// Every way in which a claim can end before its first Enter lands.
func TestALateEnterIsNeverTakenForTheGrant(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, near *Engine, s *session, c driver.Claim, land func()){
		"it waits, is evicted, and is looked at": func(t *testing.T, near *Engine, s *session, c driver.Claim, land func()) {
			rival := open(t, near, unbeaten)
			first := mutex(c.Name)
			hold(t, rival, first)
			last := wait(t, s, c)
			for _, e := range lineOf(t, near, c.Name)[1:] {
				if err := near.Evict(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			land()
			if st, err := s.Await(t.Context(), c, last); err != nil || !st.Gone {
				t.Errorf("Await: %+v, %v", st, err)
			}
			beat(t, s, c)
			if keys := keysOf(t, near, c.Name); len(keys) != 1 {
				t.Errorf("in line are %q, not the holder alone", keys)
			}
		},
		"it is evicted, and left before the beat": func(t *testing.T, near *Engine, s *session, c driver.Claim, land func()) {
			hold(t, s, c)
			evict(t, near, c.Name)
			land()
			expect(t, "Leave of what was evicted", s.Leave(t.Context(), c), driver.ErrGone)
			if keys := keysOf(t, near, c.Name); len(keys) != 0 {
				t.Errorf("in line are %q", keys)
			}
		},
		"it is left, and lands when nobody remembers it": func(t *testing.T, near *Engine, s *session, c driver.Claim, land func()) {
			hold(t, s, c)
			leave(t, s, c)
			next := mutex(c.Name)
			hold(t, s, next)
			land()
			if st := beat(t, s, next); !st.Held {
				t.Errorf("Beat: %+v of the next claim", st)
			}
			if keys := keysOf(t, near, c.Name); len(keys) != 1 {
				t.Errorf("in line are %q, not the next alone", keys)
			}
		},
		"it is forgotten, and the next claim is evicted": func(t *testing.T, near *Engine, s *session, c driver.Claim, land func()) {
			s.mu.Lock()
			s.spots[c.ID].unanswered = time.Now().Add(-time.Hour) // a TTL has passed since
			s.mu.Unlock()
			expect(t, "Leave of what has not landed", s.Leave(t.Context(), c), driver.ErrGone)
			next := mutex(c.Name)
			hold(t, s, next)
			evict(t, near, c.Name)
			rival := open(t, near, unbeaten)
			hold(t, rival, mutex(c.Name))
			land()
			if st := beat(t, s, next); !st.Gone {
				t.Errorf("Beat: %+v of a claim that was evicted, while a rival holds", st)
			}
			if keys := keysOf(t, near, c.Name); len(keys) != 1 {
				t.Errorf("in line are %q, not the rival alone", keys)
			}
		},
		"its session has ended": func(t *testing.T, near *Engine, s *session, c driver.Claim, land func()) {
			hold(t, s, c)
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			land()
			if keys := keysOf(t, near, c.Name); len(keys) != 0 {
				t.Errorf("in line are %q", keys)
			}
		},
		"it is repeated once more": func(t *testing.T, near *Engine, s *session, c driver.Claim, land func()) {
			first := hold(t, s, c)
			land() // and is refused, since the key is there
			if again := hold(t, s, c); again.Token != first.Token {
				t.Errorf("token %d became %d", first.Token, again.Token)
			}
			if st := beat(t, s, c); !st.Held || st.Token != first.Token {
				t.Errorf("Beat: %+v", st)
			}
			leave(t, s, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := []string{common(t).Addr()}
			var d detour
			near, s := engine(t, addr), open(t, engine(t, addr, d.option()), unbeaten)
			s.meet(&spot{claim: mutex("name")}, true) // else the line must be empty for the first Enter
			c := mutex("name")
			arrive := d.hold()
			if _, err := s.Enter(t.Context(), c); err == nil {
				t.Fatal("Enter that is held up was answered")
			}
			do(t, near, s, c, func() {
				t.Helper()
				if err := arrive(); err != nil {
					t.Logf("the late Enter: %v", err)
				}
			})
		})
	}
}

// deletes reports whether a request deletes a key.
func deletes(request any) bool {
	txn, ok := request.(*pb.TxnRequest)
	if !ok {
		_, ok = request.(*pb.DeleteRangeRequest)
		return ok
	}
	return slices.ContainsFunc(txn.Success, func(op *pb.RequestOp) bool { return op.GetRequestDeleteRange() != nil })
}

// lost has a call never arrive.
func lost(func() error) error { return status.Error(codes.Unavailable, "the connection broke") }

// unheard has the answer to a call never arrive.
func unheard(send func() error) error {
	if err := send(); err != nil {
		return err
	}
	return lost(nil)
}

// A Leave of the first try is on its way, the second try is granted in the same slot
// meanwhile, and the Leave finds its key there.
func TestALeaveThatFindsALaterTryInItsSlotEndsNothing(t *testing.T) {
	t.Parallel()
	addr := []string{common(t).Addr()}
	var p tap
	near, s := engine(t, addr), open(t, engine(t, addr, p.option()), unbeaten)
	one := mutex("name")
	two := one
	two.Try++
	p.next(puts, lost)
	if st, err := s.Enter(t.Context(), one); err == nil {
		t.Fatalf("Enter that never arrived: %+v", st)
	}
	s.mu.Lock()
	key := s.spots[one.ID].key
	s.spots[one.ID].unanswered = time.Now().Add(-time.Hour) // a TTL has passed since
	s.mu.Unlock()
	var held driver.Standing
	p.next(deletes, func(send func() error) error {
		held = hold(t, s, two)
		return send()
	})
	expect(t, "Leave of the first try", s.Leave(t.Context(), one), driver.ErrGone)
	if now := s.find(two); now == nil || now.key != key || held.Token == 0 {
		t.Fatalf("the second try, granted as %+v, stands in %+v, and not in %s", held, now, key)
	}
	if st := beat(t, s, two); !st.Held || st.Token != held.Token {
		t.Errorf("Beat: %+v of the second try, after a Leave of the first", st)
	}
	if st := enter(t, open(t, near, unbeaten), tries(mutex("name"))); st.Held {
		t.Errorf("a rival holds beside the second try: %+v", st)
	}
}

// reads reports whether a request is a transaction that only reads.
func reads(request any) bool {
	_, ok := request.(*pb.TxnRequest)
	return ok && !puts(request) && !deletes(request)
}

// Before a claim is entered again, as the core does after an error, it may have been
// ended: an Enter without an answer is repeated, and the repeat is put, cannot be looked
// at, and is deleted. What stands at its key then is of no claim, and ended by a beat.
func TestABeatDoesNotEndWhatIsEnteredAgain(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, p *tap, arrive func() error, enter, beat func()){
		"it beats before the answer": func(_ *testing.T, p *tap, _ func() error, enter, beat func()) {
			p.next(puts, func(send func() error) error {
				err := send()
				beat()
				return err
			})
			enter()
		},
		"it has seen the first Enter land": func(t *testing.T, p *tap, arrive func() error, enter, beat func()) {
			if err := arrive(); err != nil {
				t.Error(err)
			}
			p.next(deletes, func(send func() error) error {
				enter()
				return send()
			})
			beat()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := []string{common(t).Addr()}
			var p tap
			var d detour
			a, s := open(t, engine(t, addr), unbeaten), open(t, engine(t, addr, p.option(), d.option()), unbeaten)
			several, reader, writer := mutex("name"), mutex("name"), mutex("name")
			several.Need, several.Limit, reader.Limit = 2, driver.All, driver.All
			hold(t, a, several) // beside it a reader has to look once more
			arrive := d.hold()
			_, err := s.Enter(t.Context(), reader)
			expect(t, "Enter that is held up", err, driver.ErrUnreachable)
			p.next(puts, func(send func() error) error {
				err := send()
				p.next(reads, lost)
				return err
			})
			_, err = s.Enter(t.Context(), reader)
			expect(t, "Enter that could not be looked at", err, driver.ErrUnreachable)
			if keys := keysOf(t, a.e, "name"); len(keys) != 1 {
				t.Fatalf("in line are %q, and not only who was there before", keys)
			}
			leave(t, a, several)
			var st driver.Standing
			do(t, &p, arrive, func() { st = hold(t, s, reader) }, func() {
				if err := s.Beat(t.Context(), nil, nil); err != nil {
					t.Errorf("Beat: %v", err)
				}
			})
			if again := beat(t, s, reader); !again.Held || again.Token != st.Token || st.Token == 0 {
				t.Errorf("Beat: %+v of a reader that was granted as %+v", again, st)
			}
			if keys := keysOf(t, a.e, "name"); len(keys) != 1 {
				t.Errorf("in line are %q, and not the reader alone", keys)
			}
			if st := enter(t, a, tries(writer)); st.Held {
				t.Errorf("a writer holds beside a reader: %+v", st)
			}
		})
	}
}

// A beat asks about a claim whose Enter had no answer, and finds nothing. Before it says
// so, the Enter is repeated and granted.
func TestABeatSaysNothingOfWhatIsEnteredSinceItAsked(t *testing.T) {
	t.Parallel()
	var p tap
	s := open(t, engine(t, []string{common(t).Addr()}, p.option()), unbeaten)
	c := mutex("name")
	p.next(puts, lost)
	_, err := s.Enter(t.Context(), c)
	expect(t, "Enter that never arrived", err, driver.ErrUnreachable)
	var st driver.Standing
	p.next(reads, func(send func() error) error { // it compares
		err := send()
		p.next(reads, func(send func() error) error { // and then reads
			err := send()
			st = hold(t, s, c)
			return err
		})
		return err
	})
	if asked := beat(t, s, c); asked.Gone || asked.Valid != 0 {
		t.Errorf("Beat: %+v of a claim that was entered since", asked)
	}
	if again := beat(t, s, c); !again.Held || again.Token != st.Token || st.Token == 0 {
		t.Errorf("Beat: %+v of a claim that was granted as %+v", again, st)
	}
	leave(t, s, c)
}

func lineOf(t testing.TB, e *Engine, name string) []driver.Entry {
	t.Helper()
	line, err := e.Line(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return line
}
