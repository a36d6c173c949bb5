package once

import (
	"fmt"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/once/record"
)

// longestRun is how long the record of a run that has not ended is kept beyond the
// time for a result, with WithRetry. It bounds the records of runs that died and were
// never asked for again; a run that takes longer cannot store its result.
const longestRun = 30 * 24 * time.Hour

// An Option changes one call.
type Option func(*options)

type options struct {
	keep        time.Duration
	fingerprint string
	keepErrors  bool
	hold        bool
	lock        []pawl.Option
	err         error
}

// WithKeep sets how long the result is kept, and duplicates are recognised. The
// default is 24 hours.
func WithKeep(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 {
			o.err = fmt.Errorf("%w: keep for %v", pawl.ErrInvalid, d)
		}
		o.keep = d
	}
}

// WithPayload says what the key stands for. A call with another payload than the first
// is ErrMismatch; a call without one is not compared. Only a hash is stored.
func WithPayload(b []byte) Option {
	fingerprint := record.Fingerprint(b)
	return func(o *options) { o.fingerprint = fingerprint }
}

// WithKeepErrors keeps every error of the function, as its text: duplicates get
// ErrFailed. An error after the function's context has ended is not kept. The default
// is to keep only errors marked with Permanent.
func WithKeepErrors() Option { return func(o *options) { o.keepErrors = true } }

// WithHold is the crash policy for work that must not run twice: if a run did not
// complete, every later call is ErrUnknownOutcome until Forget or Complete. It
// counts for a run if the call that began it, or the one that finds it, has it.
func WithHold() Option { return func(o *options) { o.hold = true } }

// WithRetry is the crash policy that runs the work again. It is the default.
func WithRetry() Option { return func(o *options) { o.hold = false } }

// WithWait bounds how long a duplicate waits for the run; then it is ErrRunning. Zero
// does not wait. The default is that of the client: as long as ctx, unless it was made
// with pawl.WithWait.
func WithWait(d time.Duration) Option {
	return func(o *options) { o.lock = append(o.lock, pawl.WithWait(d)) }
}

// WithLockOptions sets options of the lock that a run holds, such as [pawl.WithTTL]:
// how long duplicates wait for a runner that died.
func WithLockOptions(opts ...pawl.Option) Option {
	return func(o *options) { o.lock = append(o.lock, opts...) }
}

// Permanent marks an error of the function as one that a retry would get again: it is
// kept, and duplicates get ErrFailed with its text.
func Permanent(err error) error { return record.Permanent(err) }
