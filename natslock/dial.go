package natslock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/pawl-go/pawl/driver"
)

// dial connects and returns a store whose Close ends the connection. creds and nkey name
// files, or are empty.
func dial(ctx context.Context, config nats.Options, creds, nkey string, o options) (*store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	config.Name = "pawl"
	config.MaxReconnect = -1           // for ever: leases know by themselves when they are lost
	config.IgnoreAuthErrorAbort = true // also where a server refuses the password twice: it may have the accounts later
	config.ReconnectWait = 100 * time.Millisecond
	config.PingInterval, config.MaxPingsOut = 5*time.Second, 2
	config.Timeout = callLimit
	config.ReconnectBufSize = -1                                         // a call without a connection fails, and is not sent later
	config.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {} // an engine does not print
	if err := authenticate(&config, creds, nkey); err != nil {
		return nil, err
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
			return nil, connectFault(r.err)
		}
		js, err := jetstream.New(r.conn)
		if err != nil {
			r.conn.Close()
			return nil, fmt.Errorf("natslock: %w", err)
		}
		s := newStore(js, o)
		s.conn = r.conn
		return s, nil
	case <-ctx.Done():
		go func() { // the same
			if r := <-dialled; r.conn != nil {
				r.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
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

// Close ends the connection, unless it is the user's.
func (s *store) Close() error {
	if s.conn != nil {
		s.conn.Close()
	}
	return nil
}
