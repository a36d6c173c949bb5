package planted

import (
	"bufio"
	"context"
	"encoding/gob"
	"net"
	"sync"

	"github.com/pawl-go/pawl/driver"
)

// A Server serves one engine to several processes.
type Server struct {
	store    *store
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex // guards what follows
	links  map[*link]struct{}
	closed bool
}

// Serve serves a memory engine with the bug of that name, or a sound one if the name is "",
// on a free port of the loopback interface.
func Serve(bug string) (*Server, error) {
	planted, err := byName(bug)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &Server{store: newStore(planted), listener: l, links: map[*link]struct{}{}}
	v.work.Go(v.accept)
	return v, nil
}

// Addr returns the address to connect to.
func (v *Server) Addr() string { return v.listener.Addr().String() }

// Close ends the connections and the engine with all its claims.
func (v *Server) Close() error {
	v.mu.Lock()
	v.closed = true
	for k := range v.links {
		k.end()
	}
	v.mu.Unlock()
	err := v.listener.Close()
	v.work.Wait()
	return driver.Join(err, v.store.close())
}

func (v *Server) accept() {
	for {
		c, err := v.listener.Accept()
		if err != nil {
			return // closed
		}
		k := &link{server: v, net: c, enc: gob.NewEncoder(c), awaits: map[uint64]context.CancelFunc{}, sessions: map[string]*session{}}
		k.ctx, k.cancel = context.WithCancel(context.Background())
		v.mu.Lock()
		v.links[k] = struct{}{}
		if v.closed {
			k.end()
		}
		v.mu.Unlock()
		v.work.Go(k.serve)
	}
}

// A link is one connection of a client.
type link struct {
	server *Server
	net    net.Conn
	ctx    context.Context // of the Awaits
	cancel context.CancelFunc
	work   sync.WaitGroup // Awaits

	writing sync.Mutex // held while a reply is sent
	enc     *gob.Encoder

	mu       sync.Mutex // guards what follows
	awaits   map[uint64]context.CancelFunc
	sessions map[string]*session // that were used here
}

// end makes serve return.
func (k *link) end() {
	k.cancel()
	_ = k.net.Close() // nothing is to be saved
}

// serve answers requests in their order; only Awaits are beside the others.
func (k *link) serve() {
	dec := gob.NewDecoder(bufio.NewReader(k.net))
	for {
		var r request
		if dec.Decode(&r) != nil {
			break
		}
		switch r.Op {
		case opCancel:
			k.ended(r.ID)
		case opAwait:
			ctx, cancel := context.WithCancel(k.ctx)
			k.mu.Lock()
			k.awaits[r.ID] = cancel
			k.mu.Unlock()
			k.work.Go(func() {
				k.answer(ctx, r)
				k.ended(r.ID)
			})
		default:
			k.answer(k.ctx, r)
		}
	}
	k.end()
	k.work.Wait()
	k.server.mu.Lock()
	delete(k.server.links, k)
	k.server.mu.Unlock()
	for _, s := range k.sessions {
		k.server.store.disconnected(s)
	}
}

// ended ends the context of an Await.
func (k *link) ended(id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if cancel := k.awaits[id]; cancel != nil {
		cancel()
		delete(k.awaits, id)
	}
}

// answer carries out a request and sends the reply.
func (k *link) answer(ctx context.Context, r request) {
	a, err := k.do(ctx, r)
	a.ID, a.Err = r.ID, encodeError(err)
	k.writing.Lock()
	defer k.writing.Unlock()
	if k.enc.Encode(a) != nil {
		_ = k.net.Close() // the client repeats its calls on another connection
	}
}

func (k *link) do(ctx context.Context, r request) (a reply, err error) {
	t := k.server.store
	switch r.Op {
	case opHello:
		return reply{Features: t.Features(), Bug: t.bug.Name}, nil
	case opOpen:
		s, err := t.open(ctx, driver.SessionOptions{ID: r.Session, TTL: r.TTL, Note: r.Note})
		if err != nil {
			return a, err
		}
		k.used(s)
		return reply{TTL: s.ttl}, nil
	case opList:
		a.Entries, err = t.list(ctx, r.Text)
	case opLine:
		a.Entries, err = t.line(ctx, r.Text)
	case opEvict:
		err = t.evict(ctx, r.Entry)
	case opLoad:
		a.Value, a.Version, err = t.Load(ctx, r.Text)
	case opStore:
		if r.Value == nil && !r.HasNone {
			r.Value = []byte{}
		}
		a.Version, err = t.Store(ctx, r.Text, r.Value, r.Version, r.Keep)
	default:
		s := t.session(r.Session)
		switch {
		case s == nil && r.Op == opClose:
			return a, nil
		case s == nil:
			return a, driver.ErrGone
		}
		k.used(s)
		a.Standings, err = s.do(ctx, r)
	}
	return a, err
}

// used says that a session was used on this connection.
func (k *link) used(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sessions[s.id] = s
}
