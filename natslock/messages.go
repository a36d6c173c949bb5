package natslock

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driverkit"
)

// A message is one of the stream, as the server sends it.
type message struct {
	Sequence uint64    `json:"seq"`
	Header   []byte    `json:"hdrs"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
	header   nats.Header
}

// lastMessage returns the last message of a subject, from the stream's leader. The client's
// own call asks any member if the bucket allows that now, and members may be behind.
func (s *store) lastMessage(ctx context.Context, api, subject string) (*message, error) {
	request, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return nil, err
	}
	reply, err := s.js.Conn().RequestWithContext(ctx, api, request)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, jetstream.ErrJetStreamNotEnabled
	}
	if err != nil {
		return nil, err
	}
	var answer struct {
		Message *message            `json:"message"`
		Error   *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, err
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, jetstream.ErrMsgNotFound
	case answer.Error != nil:
		return nil, answer.Error
	case answer.Message == nil:
		return nil, jetstream.ErrInvalidJetStreamResponse
	}
	if len(answer.Message.Header) > 0 {
		answer.Message.header, err = nats.DecodeHeadersMsg(answer.Message.Header)
	}
	return answer.Message, err
}

// fullPause is how long a server that has no room is left alone before it is asked again.
const fullPause = 200 * time.Millisecond

// isNew reports whether a message reached no one because servers have not all learnt of a
// bucket that was made a moment ago.
func (s *store) isNew(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Is(err, jetstream.ErrNoStreamResponse) && driverkit.Now().Sub(s.foundAt) < callLimit
}

// publish writes a message to a subject with once, again where it was refused for the moment: the server has too
// many requests, or no room, which one that is about to stop may say too.
func (s *store) publish(ctx context.Context, subject string, once func(context.Context) (*jetstream.PubAck, error)) (*jetstream.PubAck, error) {
	full, begun := false, driverkit.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		ack, err := call(ctx, s, subject, once)
		wait := pause/2 + rand.N(pause)
		switch {
		case isFull(err) && !full:
			full, wait = true, fullPause
		case s.isNew(err):
		case !isBusy(err) || driverkit.Now().Sub(begun) > callLimit:
			return ack, err
		}
		if !driverkit.Pause(ctx, wait) {
			return nil, err
		}
	}
}
