package once

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recipe"
)

// A State says how far a key's work has come.
type State string

// The states of a key.
const (
	Running State = "running" // it began, and has not come to its end, or not told
	Done    State = "done"
	Failed  State = "failed"  // with an error that was to be remembered
	Unknown State = "unknown" // held: it did not come to its end
)

// A Record is what is kept of a key. The zero Record says that there is none.
type Record struct {
	State    State     `json:"state"`
	Print    string    `json:"print,omitempty"`    // SHA-256 of the payload, in hex
	Hold     bool      `json:"hold,omitempty"`     // the run was begun with Hold
	Attempts int       `json:"attempts,omitempty"` // runs begun
	Token    uint64    `json:"token,string"`       // of the last run
	Started  time.Time `json:"started"`            // by the runner's clock, for people
	Ended    time.Time `json:"ended,omitzero"`
	Failure  string    `json:"failure,omitempty"` // the remembered error's text
	Codec    string    `json:"codec,omitempty"`   // of Result
	Result   []byte    `json:"-"`
	Lacks    string    `json:"lacks,omitempty"` // why there is no result of work that was done

	Mark string `json:"mark"` // unlike that of any other write
}

const (
	lacksRoom  = "too large"
	lacksCodec = "cannot be coded"
)

// silence is for how long a write that gets no answer is repeated. What was done must
// not be forgotten for an outage that the lease outlives; it ends with the lease.
const silence = time.Minute

// A record in the store is one line of JSON, for people, and the result as it is.
func (r *Record) encode() ([]byte, error) {
	head, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), r.Result...), nil
}

func decode(b []byte) (r Record, err error) {
	head, result, ok := bytes.Cut(b, []byte("\n"))
	if ok {
		err = json.Unmarshal(head, &r)
	}
	switch {
	case !ok, err != nil:
		return Record{}, fmt.Errorf("%w: not written as a record of once", ErrCodec)
	case r.State != Running && r.State != Done && r.State != Failed && r.State != Unknown:
		return Record{}, fmt.Errorf("%w: unknown state %q", ErrCodec, r.State)
	}
	r.Result = result
	return r, nil
}

// A job is one key and what is to be done about it.
type job struct {
	key, name string
	records   driver.Records
	o         options
	begun     string // the mark of the last record by which a run of ours was to begin
}

func (j *job) mismatch(rec Record) bool {
	return j.o.print != "" && rec.Print != "" && j.o.print != rec.Print
}

// newJob returns a job, also with an error, so that it can say of what.
func newJob(c *pawl.Client, key string, opts []Option) (j *job, err error) {
	j = &job{key: key, o: options{keep: keepDefault}}
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
	if _, told := errors.AsType[*Error](err); told {
		return err
	}
	return &Error{Key: j.key, Record: rec, Err: err}
}

func (j *job) load(ctx context.Context) (Record, uint64, error) {
	b, version, err := recipe.Get(ctx, j.records, j.name)
	if err != nil || version == 0 {
		return Record{}, 0, err
	}
	rec, err := decode(b)
	return rec, version, err
}

// put writes rec, whose mark must be new, over a version.
func (j *job) put(ctx context.Context, rec *Record, result []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	rec.Result = result
	b, err := rec.encode()
	if err != nil {
		return 0, err
	}
	return recipe.Put(ctx, j.records, j.name, b, ifVersion, keep, silence)
}

// keepRunning is for how long the note is kept that the work runs. With Hold it
// must outlast everything: without it the work would run again.
func (j *job) keepRunning() time.Duration {
	if j.o.hold {
		return 0
	}
	return j.o.keep + longestRun
}
