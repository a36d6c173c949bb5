package zklock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// posting makes a link ready for letters, whatever the library thinks.
func posting(t *tap) *link {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.l.up = true
	return t.l
}

// answerTo is a frame that answers the nth letter of a link.
func answerTo(n int, zxid uint32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(body)))
	xid := int32(lastOurs - n)
	b = binary.BigEndian.AppendUint32(b, uint32(xid))
	b = append(binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 0), zxid), 0, 0, 0, 0)
	return append(b, body...)
}

// However the answers come in pieces: each goes to who asked, and the library sees its
// own frames and no others.
func TestTheLibrarySeesNoAnswerToALetter(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), 10_000)
	theirs := frameOf(5, 0, 9, 0, 7)
	stream := slices.Concat(answerTo(1, 3, 'a'), theirs, answerTo(2, 4, large...), answerTo(3, 2), theirs)
	for _, piece := range []int{1, 7, 20, 21, 4096, len(stream)} {
		tap, far := tapped(t)
		l := posting(tap)
		bodies := make(chan []byte, 3)
		for range 3 {
			err := l.post(nil, letter{opGetData, getFrame("/node"), func(body []byte, err error) {
				if err != nil {
					t.Errorf("told of %v", err)
				}
				bodies <- bytes.Clone(body)
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		go func() { // ends with the pipe
			for b := stream; len(b) > 0; b = b[min(piece, len(b)):] {
				if _, err := far.Write(b[:min(piece, len(b))]); err != nil {
					return
				}
			}
		}()
		for range 2 {
			seen := make([]byte, len(theirs))
			_, err1 := io.ReadFull(tap, seen[:4]) // as the library does
			_, err2 := io.ReadFull(tap, seen[4:])
			if err := errors.Join(err1, err2); err != nil || !bytes.Equal(seen, theirs) {
				t.Fatalf("in pieces of %d the library reads %x, %v", piece, seen, err)
			}
		}
		for _, want := range [][]byte{[]byte("a"), large, nil} {
			if got := <-bodies; !bytes.Equal(got, want) {
				t.Errorf("in pieces of %d an answer is %d bytes, not %d", piece, len(got), len(want))
			}
		}
		if l.mu.Lock(); l.zxid != 4 || tap.owed != 0 {
			t.Errorf("the highest zxid is %d, not 4; %d bytes are unanswered", l.zxid, tap.owed)
		}
		l.mu.Unlock()
	}
}

func TestALetterHearsOfTheEndOfItsConnection(t *testing.T) {
	t.Parallel()
	tap, _ := tapped(t)
	l := posting(tap)
	told := make(chan error, 2)
	x := letter{opGetData, getFrame("/node"), func(_ []byte, err error) { told <- err }}
	if err := l.post(nil, x); err != nil {
		t.Fatal(err)
	}
	tap.Close()
	tap.Close()
	if err := <-told; !unknown(classify(err)) {
		t.Errorf("told of %v, by which it was not carried out", err)
	}
	if err := l.post(nil, x); err != errDown {
		t.Errorf("posting without a connection: %v", err)
	}
	if len(told) > 0 {
		t.Errorf("told once more, of %v", <-told)
	}
	l.posts.Wait() // or the test does not end
}

// The library reads what the tap could not: whatever there is of an answer when the
// connection ends, somebody waits for it.
func TestHalfAnAnswerToALetterIsTheEndOfIt(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 4, 19, 20, 21, 30} {
		tap, far := tapped(t)
		l := posting(tap)
		told := make(chan error, 2)
		if err := l.post(nil, letter{opGetData, getFrame("/node"), func(_ []byte, err error) { told <- err }}); err != nil {
			t.Fatal(err)
		}
		go func() { // ends with the pipe
			_, _ = far.Write(answerTo(1, 3, make([]byte, 20)...)[:n])
			far.Close()
		}()
		b := make([]byte, 100)
		_, err := io.ReadFull(tap, b[:4]) // as the library does
		if err == nil {
			_, err = io.ReadFull(tap, b[:binary.BigEndian.Uint32(b)])
		}
		if err == nil {
			t.Errorf("%d bytes of an answer are taken for all", n)
		}
		tap.Close()
		l.posts.Wait() // or the test does not end
		if err := <-told; !unknown(classify(err)) {
			t.Errorf("%d bytes of an answer: told of %v, by which it was not carried out", n, err)
		}
	}
}

// A server ends the connection of who sends more than it reads.
func TestALetterThatIsTooLongIsNotSent(t *testing.T) {
	t.Parallel()
	s := open(t, connect(t, []string{one(t)}, Path(pathOf(t))), time.Minute)
	cs := make([]driver.Claim, 1000)
	for i := range cs {
		cs[i] = mutex()
		cs[i].Name, cs[i].Note = fmt.Sprint("job", i), strings.Repeat("n", driver.MaxNote)
	}
	s.l.mu.Lock()
	tap := s.l.tap
	s.l.mu.Unlock()
	if _, err := s.EnterAll(t.Context(), cs); err == nil || unknown(err) {
		t.Errorf("entering a thousand claims: %v", err)
	}
	hold(t, s, mutex())
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if s.l.tap != tap {
		t.Error("it has cost the connection")
	}
}

func TestAWatchThatFailsIsOneLess(t *testing.T) {
	t.Parallel()
	tap, _ := tapped(t)
	key := watchKey{"/name", onChildren}
	for _, n := range []int{1, 1, -1} { // set, then again on a connection that ends
		tap.l.keep(key, n)
	}
	if tap.l.mu.Lock(); !tap.l.keptLocked(key.path) {
		t.Error("the first is forgotten")
	}
	tap.l.mu.Unlock()
}

func TestLettersGoOnWhenTheirNumbersHaveRunOut(t *testing.T) {
	t.Parallel()
	tap, _ := tapped(t)
	l := posting(tap)
	l.xid = math.MinInt32 + 1
	for range 3 {
		if err := l.post(nil, letter{opGetData, getFrame("/node"), func([]byte, error) {}}); err != nil {
			t.Fatal(err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, want := range []int32{math.MinInt32, lastOurs, lastOurs - 1} {
		if got := tap.asked[i].xid; got != want {
			t.Errorf("letter %d has number %d, not %d", i, got, want)
		}
	}
}

func TestALetterIsForOneLife(t *testing.T) {
	t.Parallel()
	tap, _ := tapped(t)
	l := posting(tap)
	x := letter{opGetData, getFrame("/node"), func([]byte, error) {}}
	if err := l.post(l.life, x); err != nil {
		t.Error(err)
	}
	if err := l.post(&life{lost: make(chan struct{})}, x); !errors.Is(err, driver.ErrGone) {
		t.Errorf("for another life: %v", err)
	}
	f := l.life
	l.mu.Lock()
	l.endLocked()
	l.mu.Unlock()
	if err := l.post(f, x); !errors.Is(err, driver.ErrGone) {
		t.Errorf("for a life that has ended: %v", err)
	}
}

// A stuffed connection takes so much and then nothing.
type stuffed struct {
	net.Conn
	left atomic.Int64
	end  chan struct{}
}

func (c *stuffed) Write(b []byte) (int, error) {
	if c.left.Add(-int64(len(b))) < 0 {
		<-c.end
		return 0, net.ErrClosed
	}
	return len(b), nil
}

func TestAServerThatReadsNothingKeepsNobody(t *testing.T) {
	t.Parallel()
	tap, _ := tapped(t)
	l := posting(tap)
	conn := &stuffed{Conn: tap.Conn, end: make(chan struct{})}
	conn.left.Store(2 * room)
	tap.Conn = conn
	var told atomic.Int32
	posted := make(chan error)
	go func() { // ends with the loop: the test fails if that does not
		for range 500 {
			err := l.post(nil, letter{opGetData, append(getFrame("/node"), make([]byte, 200)...), func([]byte, error) { told.Add(1) }})
			if err != nil {
				posted <- err
			}
		}
		close(posted)
	}()
	select {
	case err := <-posted:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("who posts waits for a server that reads nothing")
	}
	close(conn.end)
	tap.Close()
	l.posts.Wait()
	l.crew.Close()
	if n := told.Load(); n != 500 {
		t.Errorf("%d of 500 were told", n)
	}
}

// The library has not seen the answers to letters. A server that is behind one of them
// must not be taken for one that knows all this client does.
func TestAFurtherHandshakeKnowsTheAnswersToLetters(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	l := newLink(func(string, string, time.Duration) (net.Conn, error) { return near, nil }, 1)
	l.zxid = 77
	if _, err := l.connect("tcp", "server", time.Second); err != nil {
		t.Fatal(err)
	}
	greeting := frameOf(0, 0, 5, 10_000, 0, 0) // version, zxid, timeout, session
	kept := bytes.Clone(greeting)
	go l.tap.Write(greeting) // ends with the pipe
	got := make([]byte, len(greeting))
	if _, err := io.ReadFull(far, got); err != nil {
		t.Fatal(err)
	}
	if want := frameOf(0, 0, 77, 10_000, 0, 0); !bytes.Equal(got, want) {
		t.Errorf("the handshake is %x, not %x", got, want)
	}
	if !bytes.Equal(greeting, kept) {
		t.Error("what the library wrote is changed under its hands")
	}
}

// On a further connection the library says who we are, and a letter must not be there
// first.
func TestALetterDoesNotOvertakeThePassword(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{one(t)}, Path(pathOf(t)), Digest("ana", "right"), CreatorOnly())
	s := open(t, e, time.Minute)
	for range 30 {
		c := mutex()
		s.l.cut()
		if err := persist(func() error {
			_, err := s.Enter(t.Context(), c)
			if errors.Is(err, driver.ErrDenied) {
				t.Fatalf("after the connection was made anew: %v", err)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		leave(t, s, c)
	}
}

// recorder keeps what is sent, frame by frame.
type recorder struct {
	net.Conn
	frames *[][]byte
}

func (r recorder) Write(b []byte) (int, error) {
	*r.frames = append(*r.frames, bytes.Clone(b))
	return r.Conn.Write(b)
}

func TestLettersAreWhatTheLibraryWouldSend(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{one(t)}, Path(pathOf(t)))
	s := open(t, e, time.Minute)
	hold(t, s, mutex())
	var frames [][]byte // of the library, which asks one by one
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, addr, timeout)
		return recorder{conn, &frames}, err
	}
	conn, _, err := zk.Connect([]string{one(t)}, time.Minute, zk.WithLogInfo(false), zk.WithLogger(silent{}), zk.WithDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lower := &arrival{Claim: mutex(), version: 7, lower: []string{e.lines + "/job/p.x.0000000009"}}
	ops := s.ops([]*arrival{{Claim: claim(2, 5), version: -1}, lower})
	create, remove := ops[0].(*zk.CreateRequest), &zk.DeleteRequest{Path: e.lines + "/nobody", Version: 3}
	for _, test := range []struct {
		op    int32
		frame []byte
		call  func() error
	}{
		{opMulti, multiFrame(ops), func() error { _, err := conn.Multi(ops...); return err }},
		{opDelete, deleteFrame(remove), func() error { return conn.Delete(remove.Path, remove.Version) }},
		{opGetData, getFrame(e.lines), func() error { _, _, _, err := conn.GetW(e.lines); return err }},
		{opCreate, createFrame(create), func() error { _, err := conn.Create(create.Path, create.Data, create.Flags, create.Acl); return err }},
	} {
		_ = test.call() // some are refused; they were sent
		sent := frames[len(frames)-1]
		binary.BigEndian.PutUint32(test.frame, uint32(len(test.frame)-4))
		copy(test.frame[4:], sent[4:8]) // the xid
		binary.BigEndian.PutUint32(test.frame[8:], uint32(test.op))
		if !bytes.Equal(sent, test.frame) {
			t.Errorf("request %d:\n%x, the library sends\n%x", test.op, test.frame, sent)
		}
	}
}

// Whatever is cut off of an answer, it is an error by which the outcome is not known.
func TestAnAnswerThatIsTooShortIsNoAnswer(t *testing.T) {
	t.Parallel()
	stat := make([]byte, 68)
	part := func(op int32) []byte { return putInt(append(putInt(nil, op), 0), -1) }
	end := putInt(append(putInt(nil, -1), 1), -1)
	ops := []any{&zk.CreateRequest{}, &zk.SetDataRequest{}, &zk.DeleteRequest{}}
	multi := func(b []byte) error { _, err := readMulti(b, ops); return err }
	for name, test := range map[string]struct {
		body []byte
		read func([]byte) error
	}{
		"data":   {slices.Concat(putText(nil, "data"), stat), func(b []byte) error { _, _, err := readData(b); return err }},
		"create": {slices.Concat(putText(nil, "/path"), stat), func(b []byte) error { _, err := readCreate(b); return err }},
		"Multi":  {slices.Concat(part(opCreate), putText(nil, "/path"), part(opSetData), stat, part(opDelete), end), multi},
	} {
		if err := test.read(test.body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range test.body {
			if err := test.read(test.body[:n]); err == nil || !unknown(classify(err)) {
				t.Errorf("%d bytes of %s: %v", n, name, err)
			}
		}
	}
	refused := slices.Concat(part(-1), putInt(nil, 0), part(-1), putInt(nil, -101), part(-1), putInt(nil, -2), end)
	if parts, err := readMulti(refused, ops); !errors.Is(err, zk.ErrNoNode) || failed(parts) != 1 {
		t.Errorf("a Multi that fails in its second part: %+v, %v", parts, err)
	}
	for name, body := range map[string][]byte{
		"no part":     end,
		"two of them": slices.Concat(part(opCreate), putText(nil, "/path"), part(opSetData), stat, end),
		"one more":    slices.Concat(part(opCreate), putText(nil, "/path"), part(opSetData), stat, part(opDelete), part(opDelete), end),
		"other ones":  slices.Concat(part(opCreate), putText(nil, "/path"), part(opDelete), part(opDelete), end),
	} {
		if err := multi(body); !errors.Is(err, errShort) {
			t.Errorf("an answer with %s: %v", name, err)
		}
	}
}
