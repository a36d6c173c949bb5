package drivertest

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// A fixture is the environment of one running case.
type fixture struct {
	*testing.T
	h            Harness
	label        string
	losesReplies bool
	claimKind    claimKind
	store        driver.Engine // as returned by Harness.Open
	engine       driver.Engine // used by the case: store, or a wrapper that loses replies
	peer         driver.Engine // nil without Harness.Peer
	can          driver.Features
	ttl          time.Duration   // Harness.MinTTL
	seed         uint64          // of the case's random choices
	name         string          // a name that no other case uses; also the prefix of further names
	ctx          context.Context // ends when the case must end

	sessions        []*session
	clients         []*pawl.Client
	filler          string // ID of the claim that holds claimKind.taken units
	closeUnanswered bool   // a session's Close was not answered at first
	goroutines      sync.WaitGroup
}

// claim returns a new claim of the case's kind. It queues if the engine has lines.
func (f *fixture) claim() driver.Claim { return f.claimOf(f.claimKind.need, f.claimKind.limit) }

func (f *fixture) claimOf(need, limit int) driver.Claim {
	return driver.Claim{ID: newID(), Try: 1, Name: f.name, Need: need, Limit: limit, Queue: f.can.Queue, Note: "drivertest"}
}

func (f *fixture) reader() driver.Claim { return f.claimOf(1, driver.All) }

func (f *fixture) writer() driver.Claim { return f.claimOf(driver.All, driver.All) }

// withoutQueue returns c as a claim that does not queue.
func withoutQueue(c driver.Claim) driver.Claim {
	c.Queue = false
	return c
}

// nextTry returns c with the next Try.
func nextTry(c driver.Claim) driver.Claim {
	c.Try++
	return c
}

// withName returns c for another name of this case.
func withName(c driver.Claim, name string) driver.Claim {
	c.Name = name
	return c
}

// list returns the entries that List yields for prefix, without the filler.
func (f *fixture) list(prefix string) []driver.Entry {
	f.Helper()
	var all []driver.Entry
	err := retryLostReply(f.ctx, f.losesReplies, func() (err error) {
		all, err = entries(f.ctx, f.engine, prefix)
		return err
	})
	if err != nil {
		f.Fatalf("List(%q): %v", prefix, err)
	}
	for i := range all {
		if all[i].ID == f.filler {
			return append(all[:i:i], all[i+1:]...)
		}
	}
	return all
}

// lineOf returns the entries of a name, from Line.
func (f *fixture) lineOf(name string) (line []driver.Entry) {
	f.Helper()
	err := retryLostReply(f.ctx, f.losesReplies, func() (err error) {
		line, err = f.engine.Line(f.ctx, name)
		return err
	})
	if err != nil {
		f.Fatalf("Line(%q): %v", name, err)
	}
	return line
}

// line returns the entries of the case's name, from List.
func (f *fixture) line() []driver.Entry {
	f.Helper()
	return f.list(f.name)
}

// entry returns the listed entry with c's ID.
func (f *fixture) entry(c driver.Claim) driver.Entry {
	f.Helper()
	for _, e := range f.list(c.Name) {
		if e.ID == c.ID {
			return e
		}
	}
	f.Fatalf("claim %s is not listed under %q", c.ID, c.Name)
	return driver.Entry{}
}

// expectLine fails the case unless exactly these claims are listed, in this order.
func (f *fixture) expectLine(what string, want ...driver.Claim) {
	f.Helper()
	got := f.line()
	same := len(got) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = got[i].ID == want[i].ID && got[i].Try == want[i].Try
	}
	if !same {
		f.Fatalf("%s: the line is\n%s\nand should be\n%s", what, showEntries(got), showClaims(want))
	}
}

func entries(ctx context.Context, e driver.Engine, prefix string) ([]driver.Entry, error) {
	var all []driver.Entry
	for entry, err := range e.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		all = append(all, entry)
	}
	return all, nil
}

func newID() string {
	var b [16]byte
	_, _ = crand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func showEntries(es []driver.Entry) (out string) {
	for _, e := range es {
		out += fmt.Sprintf("  %s try %d, %d of %d, held %v, token %d\n", e.ID, e.Try, e.Need, e.Limit, e.Held, e.Fence)
	}
	return out
}

// showHolder shows the claim that a standing names as the one in the way.
func showHolder(st driver.Standing) string {
	if st.Holder == nil {
		return "  no one\n"
	}
	return showEntries([]driver.Entry{*st.Holder})
}

func showClaims(cs []driver.Claim) (out string) {
	for _, c := range cs {
		out += fmt.Sprintf("  %s try %d, %d of %d\n", c.ID, c.Try, c.Need, c.Limit)
	}
	return out
}
