package natsdoctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// A right is one that pawl needs, and how it is asked for.
type right struct {
	verb    string   // publish or subscribe
	subject string   // as an account lists it
	probe   string   // a subject that it covers
	message nats.Msg // for publish: one that changes nothing
	without string   // what goes wrong
	toMake  bool     // needed only where the bucket does not exist
}

const noLock = "No lock can be taken."

// needed lists the rights of docs/nats.md.
func (s *store) needed() []right {
	const api = jetstream.DefaultAPIPrefix
	bucket, stream := s.settings.Bucket, s.stream()
	values, notices := natsstore.Subjects(bucket), "pawl."+bucket+"."
	rights := []right{
		{verb: "subscribe", subject: "_INBOX.>", probe: nats.NewInbox(), without: noLock},
		{verb: "publish", subject: api + "INFO", probe: api + "INFO", without: noLock},
		{verb: "publish", subject: api + "STREAM.INFO." + stream, probe: api + "STREAM.INFO." + stream, without: noLock},
		{verb: "publish", subject: api + "STREAM.MSG.GET." + stream, probe: api + "STREAM.MSG.GET." + stream,
			message: nats.Msg{Data: []byte(`{"seq":18446744073709551615}`)}, without: noLock},
		{verb: "publish", subject: values + ">", probe: values + "doctor.line.doctor",
			message: nats.Msg{Header: nats.Header{jetstream.ExpectedStreamHeader: {"none"}}}, without: noLock},
		{verb: "publish", subject: notices + ">", probe: notices + "turn.doctor", without: "Waiters are not told of their turn."},
		{verb: "subscribe", subject: notices + ">", probe: notices + "turn.doctor", without: "A lock that is held cannot be waited for."},
	}
	return append(rights, right{verb: "publish", subject: api + "STREAM.CREATE." + stream, probe: api + "STREAM.CREATE." + stream,
		message: nats.Msg{Data: []byte("{}")}, // refused: it has another name than the subject
		without: "The bucket cannot be made, and nothing can be locked.", toMake: true})
}

// rights asks for each right.
func rights(ctx context.Context, s *store) (found []doctor.Finding) {
	for _, r := range s.needed() {
		check := "right to " + r.verb
		if r.toMake && s.js.info != nil {
			continue
		}
		denied, err := r.ask(ctx, s.first().conn)
		switch {
		case err != nil:
			found = append(found, doctor.Warn(check, fmt.Sprintf("cannot ask for %s: %v", r.subject, err), "Whether pawl may do that is not known.", s.permissions()))
		case denied:
			found = append(found, doctor.Break(check, "denied on "+r.subject, r.without, s.permissions()))
		default:
			found = append(found, doctor.Good(check, r.subject))
		}
	}
	return found
}

// ask tries the right. The server reports a violation on the same connection, before it
// answers the ping that follows.
func (r right) ask(ctx context.Context, conn *nats.Conn) (denied bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	violation := fmt.Sprintf("Publish to %q", r.probe)
	var replies *nats.Subscription // nil: the answer does not matter
	if r.verb == "subscribe" {
		violation = fmt.Sprintf("Subscription to %q", r.probe)
		sub, err := conn.SubscribeSync(r.probe)
		if err != nil {
			return false, err
		}
		defer func() { _ = sub.Unsubscribe() }()
	} else {
		msg := r.message
		msg.Subject = r.probe
		msg.Reply = nats.NewInbox()
		if r.toMake {
			if replies, err = conn.SubscribeSync(msg.Reply); err != nil {
				return false, err
			}
			defer func() { _ = replies.Unsubscribe() }()
		}
		if err := conn.PublishMsg(&msg); err != nil {
			return false, err
		}
	}
	if err := conn.FlushWithContext(ctx); err != nil {
		return false, err
	}
	last := conn.LastError()
	denied = errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), violation)
	if replies != nil && !denied {
		_, _ = replies.NextMsgWithContext(ctx) // so that nothing is under way when the examination ends
	}
	return denied, nil
}

// permissions is the line that gives a user all rights.
func (s *store) permissions() string {
	var publish, subscribe []string
	for _, r := range s.needed() {
		if r.verb == "subscribe" {
			subscribe = append(subscribe, fmt.Sprintf("%q", r.subject))
		} else {
			publish = append(publish, fmt.Sprintf("%q", r.subject))
		}
	}
	return fmt.Sprintf("permissions: { publish: [%s], subscribe: [%s] }", strings.Join(publish, ", "), strings.Join(subscribe, ", "))
}
