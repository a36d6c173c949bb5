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
	if why := natsstore.Unfit(stream.CachedInfo().Config, s.options.bucket); why != "" {
		return nil, fmt.Errorf("natslock: bucket %q: %s", s.options.bucket, why)
	}
	found = newBucket(stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = found
	return found, nil
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
