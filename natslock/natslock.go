package natslock

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driverkit/kvline"
	"github.com/pawl-go/pawl/natslock/internal/natsstore"
)

// defaultBucket is used when nothing else is configured.
const defaultBucket = natsstore.DefaultBucket

// Engine keeps lines of claims in a bucket of NATS JetStream. It is safe for concurrent
// use.
type Engine struct{ *kvline.Engine }

// An Option changes how an engine uses its servers.
type Option func(*options)

type options struct {
	bucket   string
	replicas int // of a bucket that is made; 0: three in a cluster, otherwise one
}

// WithBucket sets the bucket, which is made if it does not exist. The default is "pawl".
// A name that no bucket can have is an error of every call.
func WithBucket(name string) Option { return func(o *options) { o.bucket = name } }

// WithReplicas sets on how many servers a bucket that is made is kept: 1, 3 or 5. The
// default is 3 in a cluster, and otherwise 1. A bucket that exists stays as it is.
func WithReplicas(n int) Option { return func(o *options) { o.replicas = n } }

// New returns an engine on the user's own connection, which it does not close.
func New(js jetstream.JetStream, opts ...Option) *Engine {
	o := options{bucket: defaultBucket}
	for _, opt := range opts {
		opt(&o)
	}
	return newEngine(newStore(js, o))
}

// newEngine returns an engine whose tokens may repeat: a bucket can lose its latest
// writes.
func newEngine(s *store) *Engine { return &Engine{kvline.New("nats", s, driver.Volatile)} }
