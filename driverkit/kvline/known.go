package kvline

import (
	"slices"
	"sync"
	"time"
)

// deletionKnown is for how long a deleted key is expected to have the revision of the
// deletion. Stores that remember deletions forget them sooner or later.
const deletionKnown = time.Second

// maxKnown bounds the lines that an engine remembers.
const maxKnown = 4096

// known are lines as this engine wrote or read them last, or was told of them. A write that
// builds on one that has changed since is refused, so nothing is decided by them.
type known struct {
	mu         sync.Mutex // guards what follows
	byName     map[string]remembered
	generation uint64    // of notices
	heard      time.Time // when that was asked for first
}

type remembered struct {
	line     line
	revision uint64
	at       time.Time
}

// get returns a line, which the caller may change, and its revision.
func (k *known) get(name string) (line, uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.byName[name]
	if len(r.line) == 0 && time.Since(r.at) > deletionKnown {
		return nil, 0
	}
	return slices.Clone(r.line), r.revision
}

// lately returns a line that was the present one at most maxAge ago, if every notice of it has
// been heard since: in a generation of notices, no line is returned that was learnt before it
// was first asked for. No one changes it.
func (k *known) lately(name string, maxAge time.Duration, generation uint64) line {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if generation != k.generation {
		k.generation, k.heard = generation, now
	}
	r := k.byName[name]
	if generation == 0 || r.at.Before(k.heard) || now.Sub(r.at) > maxAge {
		return nil
	}
	return r.line
}

// set remembers a line, which no one changes any more.
func (k *known) set(name string, l line, revision uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byName == nil {
		k.byName = map[string]remembered{}
	}
	if k.byName[name].revision > revision {
		return // an answer that was overtaken
	}
	for other := range k.byName {
		if len(k.byName) < maxKnown {
			break
		}
		delete(k.byName, other)
	}
	k.byName[name] = remembered{l, revision, time.Now()}
}

// forget forgets a line that is older than a revision: a write that builds on it is refused.
func (k *known) forget(name string, revision uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, ok := k.byName[name]; ok && r.revision < revision {
		delete(k.byName, name)
	}
}
