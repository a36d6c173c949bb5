package natslock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/driverkit/kvline"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// markerTTL is how long the server keeps the marker of a deleted value, the shortest
// time that it accepts.
const markerTTL = time.Second

// longestTTL is the longest TTL of a message; what is to be kept longer has none. Above
// 230 years the server's times overflow, and it deletes the message at once.
const longestTTL = 100 * 365 * 24 * time.Hour

const (
	operation = "KV-Operation" // as key-value clients of NATS mark deletions
	deleted   = "DEL"
)

// A store is one bucket. It is safe for concurrent use.
type store struct {
	js       jetstream.JetStream
	options  options
	notices  string     // in front of all addresses
	conn     *nats.Conn // nil: the user's
	endDials func()     // ends a dial of conn that is under way

	mu      sync.Mutex // guards what follows
	found   *bucket
	foundAt driverkit.Instant // when it was looked for last
	unsure  map[string]bool   // keys for which checkFit had no answer
	clock   reading
	unheard driverkit.Instant // since when calls were not answered and no write acknowledged; 0: there was none
}

func newStore(js jetstream.JetStream, o options) *store {
	return &store{js: js, options: o, notices: "pawl." + o.bucket + ".", unsure: map[string]bool{}}
}

// Get returns a key's value. Without a value Data is nil; Revision is then that of the
// deletion, as long as the server knows it.
func (s *store) Get(ctx context.Context, key string) (kvline.Value, error) {
	b, err := s.bucket(ctx, false)
	if errors.Is(err, errNoBucket) {
		return kvline.Value{}, nil
	}
	if err != nil {
		return kvline.Value{}, err
	}
	if s.isUnsure(key) { // what is there may be ours
		if err := s.checkFit(ctx, b, key); err != nil {
			return kvline.Value{}, err
		}
	}
	subject := api + "STREAM.MSG.GET." + natsstore.StreamName(s.options.bucket)
	msg, err := ask(ctx, s, subject, func(ctx context.Context) (*message, error) { return s.lastMessage(ctx, subject, b.subject+key) })
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return kvline.Value{}, s.checkSame(ctx, b)
	}
	if err != nil {
		return kvline.Value{}, err
	}
	v := kvline.Value{Data: msg.Data, Revision: b.base + msg.Sequence, Time: msg.Time}
	if msg.header.Get(operation) != "" {
		v.Data = nil
	} else if v.Data == nil {
		v.Data = []byte{}
	}
	return v, nil
}

// sureFor is for how long the bucket is taken to be the one that was found.
const sureFor = 5 * time.Second

// checkSame returns an error if there is another bucket by the name now: in that one
// the key may have a value.
func (s *store) checkSame(ctx context.Context, b *bucket) error {
	s.mu.Lock()
	last := s.clock
	s.mu.Unlock()
	if last.at != 0 && driverkit.Now().Sub(last.at) <= sureFor {
		return nil
	}
	_, err := s.readClock(ctx, b)
	return err
}

// Put writes a key's value if its revision is still the given one, and returns the new
// one. nil Data deletes. The server deletes the value keep after the write, in whole
// seconds; 0, or above longestTTL: never.
//
// A key without a message has never had one, or its last one has ended in time, unless the
// bucket was changed and throws messages away. So with a write to such a key the bucket's
// settings are asked for; before a deletion, whose mark would make the key look as if its
// value had been given back.
func (s *store) Put(ctx context.Context, key string, v kvline.Value, keep time.Duration) (uint64, error) {
	return s.put(ctx, key, v, keep, func(ctx context.Context, _ *bucket, msg *nats.Msg) (*jetstream.PubAck, error) {
		return s.js.PublishMsg(ctx, msg)
	})
}

// PutTelling is Put with a notice that comes with the write.
func (s *store) PutTelling(ctx context.Context, key string, v kvline.Value, keep time.Duration, address, text string) (uint64, error) {
	return s.put(ctx, key, v, keep, func(ctx context.Context, b *bucket, msg *nats.Msg) (*jetstream.PubAck, error) {
		return s.publishTelling(ctx, msg, b.base, s.toldSubject(address), text)
	})
}

// put is Put with a function that publishes a message once.
func (s *store) put(ctx context.Context, key string, v kvline.Value, keep time.Duration,
	publish func(context.Context, *bucket, *nats.Msg) (*jetstream.PubAck, error)) (uint64, error) {
	b, err := s.bucket(ctx, true)
	if err != nil {
		return 0, err
	}
	expected := uint64(0)
	switch {
	case v.Revision > b.base:
		expected = v.Revision - b.base
	case v.Revision > 0: // of a bucket that is gone
		return 0, kvline.ErrConflict
	}
	if expected == 0 && v.Data == nil {
		if err := s.checkFit(ctx, b, key); err != nil {
			return 0, err
		}
	}
	// Options of the client would add the same headers, with many more allocations.
	msg := &nats.Msg{Subject: b.subject + key, Data: v.Data, Header: nats.Header{
		jetstream.ExpectedStreamHeader:      {natsstore.StreamName(s.options.bucket)},
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(expected, 10)},
	}}
	if v.Data == nil {
		msg.Header[operation], keep = []string{deleted}, max(keep, markerTTL)
	}
	if keep > 0 && keep <= longestTTL {
		msg.Header[jetstream.MsgTTLHeader] = []string{(keep + time.Second - 1).Truncate(time.Second).String()}
	}
	var fit chan error
	if v.Data != nil && (expected == 0 || s.isUnsure(key)) {
		fit = make(chan error, 1)
		go func() { fit <- s.checkFit(ctx, b, key) }() // received below
	}
	ack, err := s.publish(ctx, msg.Subject, func(ctx context.Context) (*jetstream.PubAck, error) { return publish(ctx, b, msg) })
	if fit != nil {
		unfit := <-fit
		if errors.Is(unfit, driver.ErrDenied) || errors.Is(unfit, driver.ErrUnsupported) { // of the question: the value may be there
			unfit = fmt.Errorf("natslock: %w: the bucket's settings: %v", driver.ErrUnreachable, unfit)
		}
		err = cmp.Or(err, unfit)
	}
	if err != nil {
		return 0, err
	}
	s.acknowledged()
	return b.base + ack.Sequence, nil
}

// Keys returns the keys that begin with prefix.
func (s *store) Keys(ctx context.Context, prefix string) ([]string, error) {
	b, err := s.bucket(ctx, false)
	if errors.Is(err, errNoBucket) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := s.info(ctx, b, jetstream.WithSubjectFilter(b.subject+prefix[:strings.LastIndexByte(prefix, '.')+1]+">"))
	if err != nil {
		return nil, err
	}
	var keys []string
	for subject := range info.State.Subjects {
		if key := strings.TrimPrefix(subject, b.subject); strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Now returns a time that the server's clock has certainly reached. The answer that it
// is computed from is at most maxAge old.
func (s *store) Now(ctx context.Context, maxAge time.Duration) (time.Time, error) {
	s.mu.Lock()
	last := s.clock
	s.mu.Unlock()
	now := driverkit.Now()
	if last.at == 0 || now.Sub(last.at) > maxAge {
		b, err := s.bucket(ctx, true)
		if err != nil {
			return time.Time{}, err
		}
		if last, err = s.readClock(ctx, b); err != nil {
			return time.Time{}, err
		}
		now = last.at
	}
	return last.server.Add(now.Sub(last.at)), nil
}

// Notify sends a notice, which may be lost.
func (s *store) Notify(address, text string) {
	_ = s.js.Conn().Publish(s.notices+address, []byte(text))
}

// Listen receives the notices to an address, as [driverkit.Listen] demands.
func (s *store) Listen(ctx context.Context, address string, up func(), message func(string)) error {
	conn := s.js.Conn()
	broken := conn.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer conn.RemoveStatusListener(broken)
	all := []string{s.notices + address, s.toldSubject(address) + "*"}
	proofs := []string{s.notices + address, s.toldSubject(address) + "proof"}
	arrived, halves := make(chan struct{}, len(proofs)), told{}
	proof := nats.NewInbox() // no other notice has this text
	take := func(m *nats.Msg) {
		text, complete := string(m.Data), true
		if text != proof && m.Subject != s.notices+address {
			text, complete = halves.hear(m)
		}
		switch {
		case text == proof:
			arrived <- struct{}{}
		case complete:
			message(text)
		}
	}
	for i, subject := range all {
		sub, err := conn.Subscribe(subject, take)
		if err != nil {
			return s.fault(ctx, subject, err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		// A connection without the right to either is told so too late.
		if err := conn.Publish(proofs[i], []byte(proof)); err != nil {
			return s.fault(ctx, subject, err) // there is no connection now
		}
	}
	timer := time.NewTimer(callLimit)
	defer timer.Stop()
	for range proofs {
		select {
		case <-arrived:
		case <-timer.C:
			for _, subject := range slices.Concat(all, proofs) {
				if denied := denial(conn, subject); denied != nil {
					return driverkit.Refused(fmt.Errorf("natslock: %w: %w", driver.ErrDenied, denied))
				}
			}
			return driver.ErrUnreachable
		case <-broken:
			return driver.ErrUnreachable
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	up()
	select {
	case <-broken:
		return driver.ErrUnreachable
	case <-ctx.Done():
		return ctx.Err()
	}
}
