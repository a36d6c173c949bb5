package natsstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driver"
)

// Mark is the key, and its value, in the metadata of a bucket that pawl made.
const Mark, version = "pawl", "1"

// isSubject matches what follows in the subject of a bucket.
var isSubject = regexp.MustCompile(`^[A-Za-z0-9_-]+\.>$`)

// StreamName is the name of a bucket's stream.
func StreamName(bucket string) string { return "KV_" + bucket }

// CheckBucket returns why a name cannot be one of a bucket.
func CheckBucket(name string) error {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	if name == "" || len(name) > 200 || strings.ContainsFunc(name, other) {
		return errors.New("a bucket has a name of letters, digits, - and _")
	}
	return nil
}

// NewConfig is the configuration of a bucket that is made, at servers of a cluster or at a
// single one. replicas 0 leaves their number to us.
func NewConfig(bucket string, replicas int, clustered bool) jetstream.StreamConfig {
	switch {
	case replicas > 0:
	case clustered:
		replicas = 3
	default:
		replicas = 1
	}
	return jetstream.StreamConfig{
		Name: StreamName(bucket), Subjects: []string{Subjects(bucket) + rand.Text() + ".>"}, Description: "locks of pawl", Metadata: map[string]string{Mark: version},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DenyDelete: true, DenyPurge: true, AllowMsgTTL: true, Replicas: replicas,
	}
}

// Subjects is what the subjects of all buckets of a name begin with.
func Subjects(bucket string) string { return "$KV." + bucket + "." }

// Unfit returns why a stream cannot keep locks.
func Unfit(c jetstream.StreamConfig, bucket string) string {
	switch {
	case c.Metadata[Mark] == "":
		return "it was not made by pawl, and is left alone: name another one, which pawl makes"
	case c.Metadata[Mark] != version:
		return "it was made by another version of pawl"
	case c.Mirror != nil || len(c.Sources) > 0:
		return "it is a copy of another one: a mirror may be old"
	case len(c.Subjects) != 1 || !isSubject.MatchString(strings.TrimPrefix(c.Subjects[0], Subjects(bucket))):
		return "its subjects were changed: they are one, " + Subjects(bucket) + " with a word and .>"
	case c.SubjectTransform != nil:
		return "it stores messages under other subjects: its subject transform was changed"
	case c.MaxMsgsPerSubject != 1 || c.MaxAge != 0 || c.Discard != jetstream.DiscardNew || c.Retention != jetstream.LimitsPolicy || !c.AllowMsgTTL || c.Sealed:
		return "its configuration was changed: it needs one message per subject, no maximal age, discard=new and TTLs of messages"
	}
	return ""
}

// CheckVersion refuses servers without TTLs of messages.
func CheckVersion(text string) error {
	var major, minor int
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		return nil // the server will say what it cannot do
	}
	if major < 2 || major == 2 && minor < 11 {
		return fmt.Errorf("natslock: %w: nats-server %s: 2.11 or later is needed", driver.ErrUnsupported, text)
	}
	return nil
}
