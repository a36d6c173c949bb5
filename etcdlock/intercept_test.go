package etcdlock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// afterCall is a client's option that calls f after every unary call.
func afterCall(f func(method string, request, reply any, err error)) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, cc, opts...)
		f(method, request, reply, err)
		return err
	})
}

// loseReply is a client's option that loses the next reply once lose is set. The request
// is carried out: with a broken connection that would be left to chance.
func loseReply(lose *atomic.Bool) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, cc, opts...)
		if err == nil && lose.CompareAndSwap(true, false) {
			return status.Error(codes.Unavailable, "the connection broke")
		}
		return err
	})
}

// An interceptor lets a test act on one unary call of a client: before it is sent, after
// it was answered, or in its place.
type interceptor struct {
	mu    sync.Mutex // guards what follows
	which func(request any) bool
	do    func(send func() error) error // nil: calls are not changed
}

// next makes do handle the next call whose request matches. Calls made while it runs are
// not changed.
func (p *interceptor) next(which func(request any) bool, do func(send func() error) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.which, p.do = which, do
}

func (p *interceptor) take(request any) (do func(send func() error) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.do != nil && p.which(request) {
		do, p.do = p.do, nil
	}
	return do
}

// option is a client's option.
func (p *interceptor) option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		send := func() error { return invoke(ctx, method, request, reply, cc, opts...) }
		if do := p.take(request); do != nil {
			return do(send)
		}
		return send()
	})
}

// onMessage is a client's option that calls f with every message received on a stream; f
// may change the message.
func onMessage(f func(method string, message any)) grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		return &messageStream{s, func(m any) { f(method, m) }}, nil
	})
}

type messageStream struct {
	grpc.ClientStream
	f func(any)
}

func (h *messageStream) RecvMsg(m any) error {
	err := h.ClientStream.RecvMsg(m)
	if err == nil {
		h.f(m)
	}
	return err
}

// silencedStreams drops every message on the streams that a client has open when silence
// is called.
type silencedStreams struct{ streams atomic.Int64 } // how often silence was called

func (m *silencedStreams) silence() { m.streams.Add(1) }

func (m *silencedStreams) option() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		return &silencedStream{s, m, m.streams.Load()}, nil
	})
}

type silencedStream struct {
	grpc.ClientStream
	m     *silencedStreams
	since int64
}

func (s *silencedStream) RecvMsg(m any) error {
	for {
		if err := s.ClientStream.RecvMsg(m); err != nil || s.m.streams.Load() == s.since {
			return err
		}
	}
}

// A delayedPut keeps back the next transaction of a client that puts a key.
type delayedPut struct {
	mu     sync.Mutex   // guards armed
	armed  bool         // the next one is kept back
	arrive func() error // sends the transaction
}

// hold arms d. The function it returns sends the request.
func (d *delayedPut) hold() (arrive func() error) {
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
func (d *delayedPut) option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if !puts(request) || !d.takes(func() error { return invoke(context.WithoutCancel(ctx), method, request, reply, cc) }) {
			return invoke(ctx, method, request, reply, cc, opts...)
		}
		return status.Error(codes.Unavailable, "the connection broke")
	})
}

func (d *delayedPut) takes(send func() error) bool {
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

// deletes reports whether a request deletes a key.
func deletes(request any) bool {
	txn, ok := request.(*pb.TxnRequest)
	if !ok {
		_, ok = request.(*pb.DeleteRangeRequest)
		return ok
	}
	return slices.ContainsFunc(txn.Success, func(op *pb.RequestOp) bool { return op.GetRequestDeleteRange() != nil })
}

// loseRequest drops a call.
func loseRequest(func() error) error { return status.Error(codes.Unavailable, "the connection broke") }

// loseAnswer sends a call and drops its answer.
func loseAnswer(send func() error) error {
	if err := send(); err != nil {
		return err
	}
	return loseRequest(nil)
}

// reads reports whether a request is a transaction that only reads.
func reads(request any) bool {
	_, ok := request.(*pb.TxnRequest)
	return ok && !puts(request) && !deletes(request)
}
