package driver

import "errors"

// The sentinels that an engine wraps its errors in. After any other error the core
// treats the outcome as unknown and settles it in the background.
var (
	// ErrGone says that the engine does not know the claim or the session, or no longer.
	ErrGone = errors.New("gone")
	// ErrLimit says that a claim's limit differs from the one the line is shared under.
	ErrLimit = errors.New("another limit is in use")
	// ErrUnsupported says that the engine cannot do this and has not tried.
	ErrUnsupported = errors.New("not supported by this engine")
	// ErrDenied says that the store refused the credentials or the permission.
	ErrDenied = errors.New("access denied")
	// ErrUnreachable says that the store did not answer: the outcome is unknown,
	// and the same call may be repeated.
	ErrUnreachable = errors.New("store unreachable")
)

// The further errors of [Records].
var (
	// ErrConflict says that a record's version was not the expected one; nothing was written.
	ErrConflict = errors.New("version conflict")
	// ErrTooLarge says that a value is larger than MaxRecord; nothing was written.
	ErrTooLarge = errors.New("value too large")
)

// ErrNoVote says that a quorum's node has lost its data, or may have, and has
// not yet rejoined; it has changed nothing. See [Voter].
var ErrNoVote = errors.New("node does not vote")
