package natslock

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// dial connects and returns a store whose Close ends the connection.
func dial(ctx context.Context, s natsstore.Settings) (*store, error) {
	conn, endDials, err := natsstore.Connect(ctx, s)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		endDials()
		conn.Close()
		return nil, fmt.Errorf("natslock: %w", err)
	}
	opened := newStore(js, options{bucket: s.Bucket, replicas: s.Replicas})
	opened.conn, opened.endDials = conn, endDials
	return opened, nil
}

// Close ends the connection, unless it is the user's.
func (s *store) Close() error {
	if s.conn != nil {
		s.endDials()
		s.conn.Close()
	}
	return nil
}
