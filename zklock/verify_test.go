package zklock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// A withholder makes connections that keep back reads of one node that set a watch.
type withholder struct {
	mu     sync.Mutex // guards what follows
	path   string     // empty: nothing is kept back
	frames []func()   // send what was kept back
}

func (h *withholder) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, addr, timeout)
	return &withheld{Conn: conn, h: h}, err
}

// holdReads keeps back reads of c's node that set a watch, until release is called.
func (h *withholder) holdReads(s *session, c driver.Claim) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.path = s.e.linePath(c.Name) + "/" + s.claims[c.ID].node
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.path = ""
		for _, send := range h.frames {
			send()
		}
		h.frames = nil
	}
}

type withheld struct {
	net.Conn
	h *withholder
}

func (c *withheld) Write(frame []byte) (int, error) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	watches := frame[len(frame)-1] == 1
	if c.h.path != "" && watches && asks(opGetData)(frame) && bytes.Contains(frame, []byte(c.h.path)) {
		kept := bytes.Clone(frame)
		c.h.frames = append(c.h.frames, func() { _, _ = c.Conn.Write(kept) })
		return len(frame), nil
	}
	return c.Conn.Write(frame)
}

// withholding opens a session whose reads can be kept back.
func withholding(t *testing.T) (*session, *withholder) {
	t.Helper()
	h := &withholder{}
	return open(t, connect(t, []string{oneServer(t)}, WithPath(pathOf(t)), WithDialer(h.dial)), time.Minute), h
}

func TestABeatAnswersForVerifiedClaimsAndTheNextForTheRest(t *testing.T) {
	t.Parallel()
	s, reads := withholding(t)
	a, b := mutex(), mutex()
	b.Name = "other"
	hold(t, s, a)
	hold(t, s, b)
	release := reads.holdReads(s, b)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	out := make([]driver.Standing, 2)
	if err := s.Beat(ctx, []driver.Claim{a, b}, out); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a beat that has not seen to all came back with %v", err)
	}
	if !out[0].Held || out[0].Valid == 0 || out[1] != (driver.Standing{}) {
		t.Errorf("it says %+v", out)
	}
	release()
	if err := s.Beat(t.Context(), []driver.Claim{a, b}, out); err != nil || !out[0].Held || !out[1].Held || out[1].Valid == 0 {
		t.Errorf("the next says %+v, %v", out, err)
	}
}

// Claims that enter during a large verification would take the servers' time from claims
// that have little left.
func TestNewClaimsWaitForALargeVerification(t *testing.T) {
	t.Parallel()
	s, reads := withholding(t)
	all := make([]driver.Claim, largeVerification)
	for i := range all {
		all[i] = mutex()
		all[i].Name = "largeVerification/" + all[i].ID
	}
	if _, err := s.EnterAll(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	release := reads.holdReads(s, all[largeVerification-1])
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	out := make([]driver.Standing, len(all))
	_ = s.Beat(ctx, all, out) // it goes on

	late := mutex()
	brief, done := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer done()
	if _, err := s.Enter(brief, late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Enter came back with %v", err)
	}
	release()
	hold(t, s, late)
	if err := s.Beat(t.Context(), all, out); err != nil {
		t.Fatal(err)
	}
	for i, st := range out {
		if !st.Held || st.Valid == 0 {
			t.Fatalf("claim %d: %+v", i, st)
		}
	}
}

// A beat is about to ask for the node of a claim when the claim enters anew, with a
// further try that ends that node: of the new one the answer says nothing.
func TestABeatDoesNotForgetAClaimThatEntersAnew(t *testing.T) {
	t.Parallel()
	s, reads := withholding(t)
	c := mutex()
	hold(t, s, c)
	release := reads.holdReads(s, c)
	defer release()
	s.mu.Lock()
	cs := s.claims[c.ID]
	s.mu.Unlock()
	var beat sync.WaitGroup
	beat.Go(func() { _ = s.verify(t.Context(), cs) })
	time.Sleep(100 * time.Millisecond) // until it knows the node
	c.Try++
	hold(t, s, c)
	release()
	beat.Wait()
	out := make([]driver.Standing, 1)
	if err := s.Beat(t.Context(), []driver.Claim{c}, out); err != nil || !out[0].Held {
		t.Errorf("%+v, %v", out[0], err)
	}
}

// The order of events: a waiter gets its turn by an event, and another recipe puts a node into
// the line. That line cannot be verified; the claims on all other names can.
func TestALineThatCannotBeReadKeepsNoOtherClaimFromItsBeat(t *testing.T) {
	t.Parallel()
	s, _ := withholding(t)
	first, ahead, behind := mutex(), mutex(), mutex()
	hold(t, s, first)
	stand(t, s, ahead)
	stand(t, s, behind)
	live := []driver.Claim{behind}
	for i := range 3 * verifyParallel {
		live = append(live, mutexOn(fmt.Sprint("other/", i)))
	}
	for part := range slices.Chunk(live[1:], 200) {
		if _, err := s.EnterAll(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	leave(t, s, first)
	turn(t, s, ahead)
	leave(t, s, ahead) // a hold that was waited for: its end is told to the one behind
	turn(t, s, behind)
	if _, err := raw(t).CreateProtectedEphemeralSequential(s.e.linePath("job")+"/lock-", nil, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	out := make([]driver.Standing, len(live))
	if err := s.Beat(t.Context(), live, out); !errors.Is(err, errForeign) {
		t.Errorf("Beat: %v", err)
	}
	if out[0] != (driver.Standing{}) {
		t.Errorf("the claim in the foreign line: %+v", out[0])
	}
	for i, st := range out[1:] {
		if !st.Held || st.Valid == 0 {
			t.Fatalf("claim %d: %+v", i, st)
		}
	}
}

func mutexOn(name string) driver.Claim {
	c := mutex()
	c.Name = name
	return c
}

// A verification asks in the order of the beat, which is that of urgency: holds before those
// that wait.
func TestHoldsAreVerifiedBeforeThoseThatWait(t *testing.T) {
	t.Parallel()
	const holds, waiting = 50, 3 * verifyParallel
	path := pathOf(t)
	rival := open(t, connect(t, []string{oneServer(t)}, WithPath(path)), time.Minute)
	var o readOrder
	s := open(t, connect(t, []string{oneServer(t)}, WithPath(path), WithDialer(o.dial)), time.Minute)
	var held, waits []driver.Claim
	for i := range waiting {
		waits = append(waits, mutexOn(fmt.Sprint("busy/", i)))
	}
	if err := forEach(t.Context(), waiting, func(ctx context.Context, i int) error {
		if _, err := rival.Enter(ctx, mutexOn(waits[i].Name)); err != nil {
			return err
		}
		_, err := s.Enter(ctx, waits[i])
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i := range holds {
		held = append(held, mutexOn(fmt.Sprint("held/", i)))
		hold(t, s, held[i])
	}
	o.take()
	live := append(held, waits...)
	out := make([]driver.Standing, len(live))
	if err := s.Beat(t.Context(), live, out); err != nil {
		t.Fatal(err)
	}
	paths := o.take()
	last := 0
	for i, path := range paths {
		if strings.Contains(path, encode("held/")) {
			last = i
		}
	}
	if len(paths) != len(live) || last >= holds+verifyParallel {
		t.Errorf("of %d reads the last for a hold is number %d", len(paths), last)
	}
}

// A readOrder makes connections that note which nodes are read with a watch.
type readOrder struct {
	mu    sync.Mutex // guards paths
	paths []string
}

func (o *readOrder) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, addr, timeout)
	return &ordered{conn, o}, err
}

func (o *readOrder) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	paths := o.paths
	o.paths = nil
	return paths
}

type ordered struct {
	net.Conn
	o *readOrder
}

func (c *ordered) Write(frame []byte) (int, error) {
	if asks(opGetData)(frame) {
		c.o.mu.Lock()
		c.o.paths = append(c.o.paths, string(frame))
		c.o.mu.Unlock()
	}
	return c.Conn.Write(frame)
}
