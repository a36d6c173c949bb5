package natslock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// A bucket is a stream that keeps values.
type bucket struct {
	stream  jetstream.Stream
	subject string // in front of all keys
	base    uint64 // revisions are counted from here
}

// A bucket that was deleted and made anew is another one. Its subjects are others, so a
// client that has not noticed gets no answer; and its revisions are larger all the same,
// unless there were more writes than microseconds.
func newBucket(stream jetstream.Stream) *bucket {
	info := stream.CachedInfo()
	return &bucket{
		stream: stream, subject: strings.TrimSuffix(info.Config.Subjects[0], ">"), base: baseOf(info),
	}
}

func baseOf(info *jetstream.StreamInfo) uint64 { return uint64(info.Created.UnixMicro()) }

// bucket returns the bucket, which the first call finds. If there is none it is made, or
// else errNoBucket.
func (s *store) bucket(ctx context.Context, made bool) (*bucket, error) {
	s.mu.Lock()
	found := s.found
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}
	if err := natsstore.CheckBucket(s.options.bucket); err != nil {
		return nil, fmt.Errorf("natslock: %w", err)
	}
	stream, err := s.open(ctx, made)
	if err != nil {
		return nil, err
	}
	if err := s.checkSettings(stream.CachedInfo()); err != nil {
		return nil, err
	}
	found = newBucket(stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.foundAt = found, driverkit.Now()
	return found, nil
}

// checkSettings returns an error if the bucket cannot keep locks. No call uses it then,
// until it was looked for again.
func (s *store) checkSettings(info *jetstream.StreamInfo) error {
	if why := natsstore.Unfit(info.Config, s.options.bucket); why != "" {
		s.forget()
		return fmt.Errorf("natslock: bucket %q: %s", s.options.bucket, why)
	}
	return nil
}

// errNoBucket says that the bucket does not exist and was not to be made.
var errNoBucket = errors.New("natslock: no bucket")

// open finds the stream. If there is none it is made, or else errNoBucket.
func (s *store) open(ctx context.Context, made bool) (jetstream.Stream, error) {
	if err := s.checkServer(ctx); err != nil {
		return nil, err
	}
	name := natsstore.StreamName(s.options.bucket)
	find := func() (jetstream.Stream, error) {
		return ask(ctx, s, api+"STREAM.INFO."+name, func(ctx context.Context) (jetstream.Stream, error) { return s.js.Stream(ctx, name) })
	}
	stream, err := find()
	switch {
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return stream, err
	case !made:
		return nil, errNoBucket
	}
	if !s.js.Conn().IsConnected() { // then it is not known whether there is a cluster
		return nil, fmt.Errorf("natslock: %w: the connection is lost", driver.ErrUnreachable)
	}
	config := natsstore.NewConfig(s.options.bucket, s.options.replicas, s.js.Conn().ConnectedClusterName() != "")
	_, err = ask(ctx, s, api+"STREAM.CREATE."+name, func(ctx context.Context) (jetstream.Stream, error) { return s.js.CreateStream(ctx, config) })
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // in use: made by another at the same time
		return nil, err
	}
	for wait := 10 * time.Millisecond; ; wait *= 2 { // servers learn of it one by one
		stream, err = find()
		if !errors.Is(err, jetstream.ErrStreamNotFound) || wait > callLimit/2 || !driverkit.Pause(ctx, wait) {
			return stream, err
		}
	}
}

// checkServer refuses servers that cannot keep locks, and those that may keep others than
// the next server does.
func (s *store) checkServer(ctx context.Context) error {
	if err := natsstore.CheckVersion(s.js.Conn().ConnectedServerVersion()); err != nil {
		return err
	}
	domain, prefix := s.js.Options().Domain, s.js.Options().APIPrefix
	if domain == "" && prefix != "" && prefix != jetstream.DefaultAPIPrefix {
		return fmt.Errorf("natslock: %w: a JetStream under another prefix", driver.ErrUnsupported)
	}
	if domain == "" {
		account, err := ask(ctx, s, api+"INFO", s.js.AccountInfo)
		if err != nil {
			return err
		}
		domain = account.Domain
	}
	if domain != "" {
		return fmt.Errorf("natslock: %w: JetStream domain %q: clients at a leafnode and at its hub would have different locks", driver.ErrUnsupported, domain)
	}
	return nil
}

// info asks for the bucket as it is now. Every answer is looked at: its settings can be
// changed by hand.
func (s *store) info(ctx context.Context, b *bucket, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	info, err := ask(ctx, s, api+"STREAM.INFO."+natsstore.StreamName(s.options.bucket), func(ctx context.Context) (*jetstream.StreamInfo, error) {
		info, err := b.stream.Info(ctx, opts...)
		if err != nil {
			return nil, err
		}
		if baseOf(info) != b.base {
			return nil, jetstream.ErrStreamNotFound // there is another one by its name
		}
		return info, nil
	})
	if err == nil {
		err = s.checkSettings(info)
	}
	return info, err
}

// A reading is what the server's clock has read.
type reading struct {
	server time.Time
	at     driverkit.Instant // when the answer had arrived
}

// readClock asks the server for its time.
func (s *store) readClock(ctx context.Context, b *bucket) (reading, error) {
	info, err := s.info(ctx, b)
	if err != nil {
		return reading{}, err
	}
	r := reading{server: info.TimeStamp, at: driverkit.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = r
	return r, nil
}

// maxUnsure bounds the keys that are remembered as unsure.
const maxUnsure = 4096

// checkFit asks whether the bucket still keeps every message, after a key was found
// without one. Without an answer the next call about that key asks again.
func (s *store) checkFit(ctx context.Context, b *bucket, key string) error {
	_, err := s.readClock(ctx, b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.unsure, key)
		return nil
	}
	if len(s.unsure) >= maxUnsure {
		clear(s.unsure)
		s.found = nil // it is looked for again, which answers for all of them
	}
	s.unsure[key] = true
	return err
}

func (s *store) isUnsure(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsure[key]
}
