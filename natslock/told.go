package natslock

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driverkit"
)

// A notice that comes with a write is sent in front of it, on a subject of its own, and the
// server's answer to the write goes to the same subject. So who listens knows that the
// value is written when the writer does, or sooner: the notice counts with the answer.

// baseHeader marks such a notice. Its value and the sequence in the answer are the revision.
const baseHeader = "Pawl-Base"

// told are the halves of notices that one listener has received. Only the subscription to
// such notices uses it, for one message after the other.
type told map[string]half // by subject

type half struct {
	text           string
	base, sequence uint64
	came           driverkit.Instant
}

func (s *store) toldSubject(address string) string { return s.notices + "told." + address + "." }

// hear takes a message, and returns the notice that is complete with it.
func (t told) hear(m *nats.Msg) (text string, complete bool) {
	h, now := t[m.Subject], driverkit.Now()
	h.came = now
	if base := m.Header.Get(baseHeader); base != "" {
		h.base, _ = strconv.ParseUint(base, 10, 64)
		h.text = string(m.Data)
	} else if ack, err := ackOf(m); err == nil {
		h.sequence = ack.Sequence
	} else { // it was not written
		delete(t, m.Subject)
		return "", false
	}
	if h.text != "" && h.sequence != 0 {
		delete(t, m.Subject)
		return h.text + strconv.FormatUint(h.base+h.sequence, 10), true
	}
	maps.DeleteFunc(t, func(_ string, h half) bool { return now.Sub(h.came) > callLimit })
	t[m.Subject] = h
	return "", false
}

// noStreamTries and noStreamPause are for a stream that has no leader at the moment, as those
// of the client's own call.
const (
	noStreamTries = 3
	noStreamPause = 250 * time.Millisecond
)

// publishTelling publishes a message with a notice to a subject of toldSubject.
func (s *store) publishTelling(ctx context.Context, msg *nats.Msg, base uint64, to, text string) (ack *jetstream.PubAck, err error) {
	conn := s.js.Conn()
	notice := &nats.Msg{Subject: to + rand.Text(), Data: []byte(text), Header: nats.Header{baseHeader: {strconv.FormatUint(base, 10)}}}
	if err := conn.PublishMsg(notice); err != nil && !errors.Is(err, nats.ErrMaxPayload) { // without it, the waiter looks
		return nil, err
	}
	answer := make(chan *nats.Msg, 1)
	sub, err := conn.ChanSubscribe(notice.Subject, answer)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	closed := conn.StatusChanged(nats.CLOSED)
	defer conn.RemoveStatusListener(closed)
	msg.Reply = notice.Subject
	for range noStreamTries {
		if err := conn.PublishMsg(msg); err != nil {
			return nil, err
		}
		select {
		case m := <-answer:
			ack, err = ackOf(m)
		case <-closed:
			return nil, nats.ErrConnectionClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !errors.Is(err, jetstream.ErrNoStreamResponse) || !driverkit.Pause(ctx, noStreamPause) {
			break
		}
	}
	return ack, err
}

// ackOf reads the server's answer to a write.
func ackOf(m *nats.Msg) (*jetstream.PubAck, error) {
	var answer struct {
		jetstream.PubAck
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case len(m.Data) == 0: // no server has the stream
		return nil, jetstream.ErrNoStreamResponse
	case err != nil:
		return nil, err
	case answer.Error != nil:
		return nil, answer.Error
	case answer.Sequence == 0:
		return nil, jetstream.ErrInvalidJetStreamResponse
	}
	return &answer.PubAck, nil
}
