package natslock

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driverkit"
)

// cutOffAfter is for how long no write may have been acknowledged, since a call was not
// answered, before another server is tried.
const cutOffAfter = 5 * time.Second

// failed is told of every call that returned an error. A server that is cut off from the
// others answers pings as before, so the client would stay with it for ever: the
// engine's own connection moves on to the next. A user's connection is left alone.
//
// A stream's leader that is cut off answers reads, and refuses writes as conflicts with
// one that it cannot complete, for about twenty seconds. So only an acknowledged write
// shows that the server is connected with others.
func (s *store) failed(ctx context.Context, err error) {
	if s.conn == nil || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	api, answered := errors.AsType[*jetstream.APIError](err)
	answered = answered && api.Code < 500
	if isFull(err) || answered && api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequenceConstant {
		return
	}
	if s.cutOff(answered) && len(s.conn.Servers()) > 1 && s.conn.IsConnected() {
		_ = s.conn.ForceReconnect() // fails only if it is closed
	}
}

// cutOff reports whether no write was acknowledged for long after a call without an
// answer.
func (s *store) cutOff(answered bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := driverkit.Now()
	switch {
	case s.unheard == 0 && answered:
	case s.unheard == 0:
		s.unheard = now
	case now.Sub(s.unheard) >= cutOffAfter:
		s.unheard = now // the next server has as long
		return true
	}
	return false
}

// acknowledged is told of every write that a majority has.
func (s *store) acknowledged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unheard = 0
}
