package once

import (
	"context"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recipe"
	"github.com/pawl-go/pawl/once/record"
)

// A State says how far a key's work has come.
type State = record.State

// The states of a key.
const (
	Running = record.Running // it began, and no end is recorded
	Done    = record.Done
	Failed  = record.Failed  // with an error that is kept
	Unknown = record.Unknown // with WithHold: it began, and did not complete
)

// A Record is what is kept of a key: its State, when it Started and Ended, its
// Result or the text of its Failure. The zero Record says that there is none.
type Record = record.Record

// retryFor is how long a write that gets no answer is repeated: a result must survive
// an outage that the lease survives. The repeats end with the lease.
const retryFor = time.Minute

// A job is one key and what is to be done about it.
type job struct {
	c         *pawl.Client
	key, name string
	records   driver.Records
	o         options
	begun     string // the WriteID of the last record with which this job began a run
}

func (j *job) mismatch(rec Record) bool { return rec.Mismatch(j.o.fingerprint) }

// newJob returns a job also with an error, for its fail method.
func newJob(c *pawl.Client, key string, opts []Option) (j *job, err error) {
	j = &job{c: c, key: key, o: options{keep: record.DefaultKeep}}
	for _, opt := range opts {
		opt(&j.o)
	}
	if j.o.err != nil {
		return j, j.o.err
	}
	if j.name, err = recipe.Name("once", key); err != nil {
		return j, err
	}
	j.records, err = c.Records()
	return j, err
}

func (j *job) fail(rec Record, err error) error {
	return record.Wrap(j.key, rec, err)
}

func (j *job) load(ctx context.Context) (Record, uint64, error) {
	b, version, err := recipe.Get(ctx, j.records, j.name)
	if err != nil || version == 0 {
		return Record{}, 0, err
	}
	rec, err := record.Parse(b)
	return rec, version, err
}

// put writes rec, whose WriteID must be new, over a version.
func (j *job) put(ctx context.Context, rec *Record, result []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	rec.Result = result
	b, err := rec.Marshal()
	if err != nil {
		return 0, err
	}
	return recipe.Put(ctx, j.records, j.name, b, ifVersion, keep, retryFor)
}

// keepRunning is how long the record of a run without an end is kept. With WithHold
// it must not expire: the work would run again.
func (j *job) keepRunning() time.Duration {
	if j.o.hold {
		return 0
	}
	return j.o.keep + longestRun
}
