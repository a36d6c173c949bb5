package etcdlock

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
)

// Authenticate has the user and password of config sent in a way that servers of 3.4
// understand too, and takes them out of it. It is what a store's URL with a password
// does.
//
// The client's own way sends its token with every request, also with the one that asks
// for another. A server of 3.4 refuses that one once the token has expired, which it
// does after five minutes without use: from then on nothing works until the client is
// made anew, and it asks hundreds of times a second.
func Authenticate(config *clientv3.Config) {
	if config.Username != "" && config.Password != "" {
		newAuthenticator(config)
	}
}

// newAuthenticator takes the password out of config.
func newAuthenticator(config *clientv3.Config) *authenticator {
	a := &authenticator{user: config.Username, password: config.Password, turn: make(chan struct{}, 1)}
	config.Username, config.Password = "", ""
	config.DialOptions = append(config.DialOptions[:len(config.DialOptions):len(config.DialOptions)],
		grpc.WithChainUnaryInterceptor(a.unary), grpc.WithChainStreamInterceptor(a.stream))
	return a
}

// An authenticator adds a token to what a client sends, and gets another one when it
// is refused.
type authenticator struct {
	user, password string
	turn           chan struct{} // full while a caller uses given: a mutex that a wait with ctx can take
	given          *token        // nil: none yet
}

// A token is what a server gave for the password; empty where it asks for none.
type token struct {
	text string
	at   time.Time // when it was given
}

// The two calls that are special: one must not carry a token, and what the other opens
// keeps its token for as long as it lives.
const (
	authenticateMethod = pb.Auth_Authenticate_FullMethodName
	watchMethod        = pb.Watch_Watch_FullMethodName
)

// A member that is behind, or cut off, may not have heard yet of a token that another
// member has given. So a call is sent several times, and a token that is young is not
// replaced: to check a password is made to be slow.
const (
	tokenTries = 4
	tokenYouth = time.Second
)

// unary sends a call with a token, and again with another where that was refused: the
// server has done nothing then.
func (a *authenticator) unary(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == authenticateMethod {
		return invoke(ctx, method, request, reply, cc, opts...)
	}
	var stale *token
	for try := 0; ; try++ {
		given, err := a.other(ctx, cc, stale)
		if err != nil {
			return err
		}
		if given == stale {
			pause(ctx, 25*time.Millisecond<<try)
		}
		err = invoke(given.with(ctx), method, request, reply, cc, opts...)
		if !refusedToken(err) || try == tokenTries {
			return err
		}
		stale = given
	}
}

// stream opens a stream with a token. A stream of watches is opened rarely and has the
// right of its token checked at every watch, so it begins with a new one.
func (a *authenticator) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	given, err := a.other(ctx, cc, nil)
	if err == nil && method == watchMethod {
		given, err = a.other(ctx, cc, given)
	}
	if err != nil {
		return nil, err
	}
	return open(given.with(ctx), desc, cc, method, opts...)
}

// other returns the present token, or another if that is the one that was refused and
// it is not young. One caller asks for all.
func (a *authenticator) other(ctx context.Context, cc *grpc.ClientConn, stale *token) (*token, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if a.given != nil && (a.given != stale || time.Since(a.given.at) < tokenYouth) {
		return a.given, nil
	}
	now := time.Now()
	reply, err := pb.NewAuthClient(cc).Authenticate(ctx, &pb.AuthenticateRequest{Name: a.user, Password: a.password})
	switch {
	case err == nil:
		a.given = &token{reply.Token, now}
	case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled):
		a.given = &token{at: now}
	default:
		return nil, err
	}
	return a.given, nil
}

// pause waits, for no longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// with returns ctx for a call with the token.
func (k *token) with(ctx context.Context) context.Context {
	if k.text == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, k.text)
}

// refusedToken reports whether a call was refused because of its token.
func refusedToken(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) || errors.Is(err, rpctypes.ErrUserEmpty)
}
