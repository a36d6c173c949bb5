package natsstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/pawl-go/pawl/driver"
)

// CallLimit is after how long a server counts as unreachable.
const CallLimit = 4 * time.Second

// Connect connects as a URL says, with the dialer of ctx if it has one. Whoever closes the
// connection calls endDials first, which ends a dial that is under way.
func Connect(ctx context.Context, s Settings) (conn *nats.Conn, endDials func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	config := s.Config
	config.Name = "pawl"
	config.MaxReconnect = -1           // for ever: leases know by themselves when they are lost
	config.IgnoreAuthErrorAbort = true // also where a server refuses the password twice: it may have the accounts later
	config.ReconnectWait = 100 * time.Millisecond
	config.PingInterval, config.MaxPingsOut = 5*time.Second, 2
	config.Timeout = CallLimit
	config.ReconnectBufSize = -1                                         // a call without a connection fails, and is not sent later
	config.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {} // an engine does not print
	if err := authenticate(&config, s.Creds, s.Nkey); err != nil {
		return nil, nil, err
	}
	endDials = func() {}
	if d := driver.DialerOf(ctx); d != nil {
		dials, cancel := context.WithCancel(context.Background()) // the connection outlives ctx
		config.CustomDialer, config.SkipHostLookup = &contextDialer{dials, d, config.Timeout}, true
		endDials = cancel
	}
	type result struct {
		conn *nats.Conn
		err  error
	}
	dialled := make(chan result, 1)
	go func() { // ends after the timeout for each server, whatever ctx
		conn, err := config.Connect()
		dialled <- result{conn, err}
	}()
	select {
	case r := <-dialled:
		if r.err != nil {
			endDials()
			return nil, nil, connectFault(r.err)
		}
		return r.conn, endDials, nil
	case <-ctx.Done():
		endDials()
		go func() { // the same
			if r := <-dialled; r.conn != nil {
				r.conn.Close()
			}
		}()
		return nil, nil, ctx.Err()
	}
}

// A contextDialer opens the connections of a client whose own dialers know no context.
type contextDialer struct {
	ctx     context.Context // ends with the store
	dial    driver.Dialer
	timeout time.Duration
}

// Dial opens a connection within the timeout.
func (d *contextDialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	return d.dial(ctx, network, address)
}

// authenticate adds what the files say.
func authenticate(config *nats.Options, creds, nkey string) error {
	if creds != "" {
		if _, err := os.Stat(creds); err != nil {
			return fmt.Errorf("natslock: parameter creds: %w", driver.WithoutPath(err))
		}
		return nats.UserCredentials(creds)(config)
	}
	if nkey == "" {
		return nil
	}
	seed, err := os.ReadFile(nkey)
	if err != nil {
		return fmt.Errorf("natslock: parameter nkey: %w", driver.WithoutPath(err))
	}
	pair, err := nkeys.ParseDecoratedNKey(seed)
	if err != nil {
		return errors.New("natslock: parameter nkey: no seed in the file")
	}
	if config.Nkey, err = pair.PublicKey(); err != nil {
		return errors.New("natslock: parameter nkey: no seed in the file")
	}
	config.SignatureCB = pair.Sign
	return nil
}

func connectFault(err error) error {
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
		return fmt.Errorf("natslock: connect: %w: %w", driver.ErrDenied, err)
	}
	return fmt.Errorf("natslock: connect: %w: %w", driver.ErrUnreachable, err)
}
