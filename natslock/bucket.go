package natslock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit"
)

// mark is the key, and its value, in the metadata of a bucket that pawl made.
const mark, version = "pawl", "1"

// isSubject matches what follows in the subject of a bucket.
var isSubject = regexp.MustCompile(`^[A-Za-z0-9_-]+\.>$`)

func streamName(bucket string) string { return "KV_" + bucket }

// checkBucket returns why a name cannot be one of a bucket.
func checkBucket(name string) error {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	if name == "" || len(name) > 200 || strings.ContainsFunc(name, other) {
		return errors.New("a bucket has a name of letters, digits, - and _")
	}
	return nil
}

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
	if err := checkBucket(s.options.bucket); err != nil {
		return nil, fmt.Errorf("natslock: %w", err)
	}
	stream, err := s.open(ctx, made)
	if err != nil {
		return nil, err
	}
	if why := unfit(stream.CachedInfo().Config, s.options.bucket); why != "" {
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
	name := streamName(s.options.bucket)
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
	config := s.config()
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
	if err := checkVersion(s.js.Conn().ConnectedServerVersion()); err != nil {
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

func (s *store) config() jetstream.StreamConfig {
	replicas := s.options.replicas
	switch {
	case replicas > 0:
	case s.js.Conn().ConnectedClusterName() != "":
		replicas = 3
	default:
		replicas = 1
	}
	return jetstream.StreamConfig{
		Name: streamName(s.options.bucket), Subjects: []string{subjects(s.options.bucket) + rand.Text() + ".>"}, Description: "locks of pawl", Metadata: map[string]string{mark: version},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true, AllowMsgTTL: true, Replicas: replicas,
	}
}

// subjects is what the subjects of all buckets of a name begin with.
func subjects(bucket string) string { return "$KV." + bucket + "." }

// unfit returns why a stream cannot keep locks.
func unfit(c jetstream.StreamConfig, bucket string) string {
	switch {
	case c.Metadata[mark] == "":
		return "it was not made by pawl, and is left alone: name another one, which pawl makes"
	case c.Metadata[mark] != version:
		return "it was made by another version of pawl"
	case c.Mirror != nil || len(c.Sources) > 0:
		return "it is a copy of another one: a mirror may be old"
	case len(c.Subjects) != 1 || !isSubject.MatchString(strings.TrimPrefix(c.Subjects[0], subjects(bucket))):
		return "its subjects were changed: they are one, " + subjects(bucket) + " with a word and .>"
	case c.AllowDirect || c.MirrorDirect:
		return "it allows direct reads, which may be old"
	case c.MaxMsgsPerSubject != 1 || c.MaxAge != 0 || c.Discard != jetstream.DiscardNew || c.Retention != jetstream.LimitsPolicy || !c.AllowMsgTTL || c.Sealed:
		return "its configuration was changed: it needs one message per subject, no maximal age, discard=new and TTLs of messages"
	}
	return ""
}

// checkVersion refuses servers without TTLs of messages.
func checkVersion(text string) error {
	var major, minor int
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		return nil // the server will say what it cannot do
	}
	if major < 2 || major == 2 && minor < 11 {
		return fmt.Errorf("natslock: %w: nats-server %s: 2.11 or later is needed", driver.ErrUnsupported, text)
	}
	return nil
}
