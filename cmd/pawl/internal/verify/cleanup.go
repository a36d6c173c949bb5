package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// cleanUp waits until the store has no claims of this run any more, which takes as long as
// those of a killed worker live, and removes what is left.
func (r *run) cleanUp(ctx context.Context, c *pawl.Client) (left []string, err error) {
	longest := 4 * r.recorder.lifetime(r.TTL)
	outer := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(outer), longest+firstContact)
	defer cancel()
	defer context.AfterFunc(outer, func() { time.AfterFunc(firstContact, cancel) })()
	for patient := time.Now().Add(longest); ; {
		entries, err := r.claims(ctx, c)
		if err != nil || len(entries) == 0 {
			return nil, err
		}
		if outer.Err() != nil || time.Now().After(patient) {
			for _, e := range entries {
				left = append(left, fmt.Sprintf("%s: claim %s of session %s, held %v", e.Name[len(r.Prefix):], e.ID, e.Session, e.Held))
			}
			r.evictAll(ctx, c, entries)
			return left, nil
		}
		rest(ctx, 50*time.Millisecond)
	}
}

// evictAll removes claims, those in the back of a line first: a claim that is let in because
// one ahead of it was removed is another one for Evict, which refuses it. What has changed
// nevertheless is read again.
func (r *run) evictAll(ctx context.Context, c *pawl.Client, entries []driver.Entry) {
	for err := error(nil); len(entries) > 0 && err == nil; rest(ctx, 50*time.Millisecond) {
		for _, e := range slices.Backward(entries) {
			_ = c.Evict(ctx, e) // the list says whether it is gone
		}
		entries, err = r.claims(ctx, c) // fails when ctx has ended
	}
}

// claims returns the claims of this run. Others may have begun to use the prefix meanwhile;
// theirs must not be removed.
func (r *run) claims(ctx context.Context, c *pawl.Client) (entries []driver.Entry, err error) {
	for e, err := range c.List(ctx, r.Prefix) {
		if err != nil {
			return nil, err
		}
		name := e.Name[len(r.Prefix):]
		if _, ours := r.recorder.kinds[name]; ours || name == probeName {
			entries = append(entries, e)
		}
	}
	return entries, nil
}
