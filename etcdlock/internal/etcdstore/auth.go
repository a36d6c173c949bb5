package etcdstore

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pawl-go/pawl/driverkit"
)

// An Authenticator adds a token to the calls of a client, and gets another token when
// one is refused.
type Authenticator struct {
	user, password string
	lock           chan struct{} // full while a caller uses current: a mutex whose wait ends with ctx
	current        *token        // nil: none yet
}

// A token is what a server gave for the password; empty where authentication is off.
type token struct {
	text string
	at   time.Time // when it was given
}

// NewAuthenticator takes user and password out of config and installs itself there.
func NewAuthenticator(config *clientv3.Config) *Authenticator {
	a := &Authenticator{user: config.Username, password: config.Password, lock: make(chan struct{}, 1)}
	config.Username, config.Password = "", ""
	config.DialOptions = append(config.DialOptions[:len(config.DialOptions):len(config.DialOptions)],
		grpc.WithChainUnaryInterceptor(a.unary), grpc.WithChainStreamInterceptor(a.stream))
	return a
}

// Two methods are special: the call for a token must not carry one, and a stream of
// watches keeps its token for as long as it lives.
const (
	authenticateMethod = pb.Auth_Authenticate_FullMethodName
	watchMethod        = pb.Watch_Watch_FullMethodName
)

// A member that is behind, or isolated, may not know a token that another member gave.
// So a call is sent several times, and a recent token is not replaced: checking a
// password is slow by design.
const (
	tokenTries  = 4
	tokenRecent = time.Second
)

// unary sends a call with a token, and again with another where that was refused: the
// server did nothing then.
func (a *Authenticator) unary(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == authenticateMethod {
		return invoke(ctx, method, request, reply, cc, opts...)
	}
	var refused *token
	for try := 0; ; try++ {
		current, err := a.token(ctx, cc, refused)
		if err != nil {
			return err
		}
		if current == refused {
			driverkit.Pause(ctx, 25*time.Millisecond<<try)
		}
		err = invoke(current.addTo(ctx), method, request, reply, cc, opts...)
		if !tokenRefused(err) || try == tokenTries {
			return err
		}
		refused = current
	}
}

// stream opens a stream with a token. A stream of watches is opened rarely and has its
// token checked at every watch, so it begins with a new token.
func (a *Authenticator) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	current, err := a.token(ctx, cc, nil)
	if err == nil && method == watchMethod {
		current, err = a.token(ctx, cc, current)
	}
	if err != nil {
		return nil, err
	}
	return open(current.addTo(ctx), desc, cc, method, opts...)
}

// token returns the current token, or a new one if the current one was refused and is
// not recent. One caller asks for all.
func (a *Authenticator) token(ctx context.Context, cc *grpc.ClientConn, refused *token) (*token, error) {
	select {
	case a.lock <- struct{}{}:
		defer func() { <-a.lock }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if a.current != nil && (a.current != refused || time.Since(a.current.at) < tokenRecent) {
		return a.current, nil
	}
	now := time.Now()
	reply, err := pb.NewAuthClient(cc).Authenticate(ctx, &pb.AuthenticateRequest{Name: a.user, Password: a.password})
	switch {
	case err == nil:
		a.current = &token{reply.Token, now}
	case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled):
		a.current = &token{at: now}
	default:
		return nil, err
	}
	return a.current, nil
}

// addTo returns ctx for a call with the token.
func (k *token) addTo(ctx context.Context) context.Context {
	if k.text == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, k.text)
}

// tokenRefused reports whether a call was refused because of its token.
func tokenRefused(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) || errors.Is(err, rpctypes.ErrUserEmpty)
}
