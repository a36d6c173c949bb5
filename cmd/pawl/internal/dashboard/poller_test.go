package dashboard

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// A slowStore lists once, and then only when it is told to.
type slowStore struct {
	*pawl.Client
	listed  chan struct{} // has room for the first listing
	proceed chan struct{}
}

func (s *slowStore) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	select {
	case s.listed <- struct{}{}:
	default:
		select {
		case <-s.proceed:
		case <-ctx.Done():
		}
	}
	return s.Client.List(ctx, prefix)
}

func TestAPageChangesWhileAListingIsUnderWay(t *testing.T) {
	t.Parallel()
	e := newMemory(t)
	ana, bo := newClient(t, e, "ana@h pid 1 x"), newClient(t, e, "bo@h pid 2 x")
	hold(t, ana, "deploy")
	slow := &slowStore{newClient(t, e, "dash@h pid 3 x"), make(chan struct{}, 1), make(chan struct{})}
	s := newSite(t, e, func(o *Options) { o.Store = slow })
	l := s.listen("view=/name&name=deploy")
	l.until("ana@h")
	queue(t, bo, "deploy")
	l.until("bo@h") // the listing has not ended
	close(slow.proceed)
	st, _ := s.d.hub.current()
	eventually(t, "the listing ends", func() bool {
		now, _ := s.d.hub.current()
		return now.listings > st.listings
	})
	if body := s.get("/name?name=deploy", nil).body; !strings.Contains(body, "bo@h") {
		t.Errorf("the listing took the waiter away:\n%s", body)
	}
}

func TestAListingDoesNotHideWhatWasReadAlone(t *testing.T) {
	t.Parallel()
	read := func(name string, entries ...driver.Entry) *line { return newLine(name, entries, time.Now(), nil) }
	p := &poller{looked: map[string]*line{
		"changed": read("changed", held("new", "changed", 0)),
		"new":     read("new", held("new", "new", 0)),
		"gone":    read("gone"),
	}}
	r := listing{byName: map[string]*line{
		"changed": read("changed", held("old", "changed", 0)),
		"gone":    read("gone", held("old", "gone", 0)),
		"other":   read("other", held("new", "other", 0)),
	}}
	p.keepLooked(r)
	var got []string
	for name, l := range r.byName {
		got = append(got, name+" "+l.entries[0].Session)
	}
	slices.Sort(got)
	if want := []string{"changed new", "new new", "other new"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A bulkStore reads everything at the start of a listing and hands it over later, as
// a store with one query for all does.
type bulkStore struct {
	*pawl.Client
	first   chan struct{}
	read    chan struct{}
	proceed chan struct{}
}

func (s *bulkStore) List(ctx context.Context, prefix string) iter.Seq2[driver.Entry, error] {
	var all []driver.Entry
	for e, err := range s.Client.List(ctx, prefix) {
		if err == nil {
			all = append(all, e)
		}
	}
	select {
	case s.first <- struct{}{}:
	default:
		select {
		case s.read <- struct{}{}:
			select {
			case <-s.proceed:
			case <-ctx.Done():
			}
		default:
		}
	}
	return func(yield func(driver.Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestAListingThatWasReadEarlierDoesNotBringBackAHold(t *testing.T) {
	t.Parallel()
	e := newMemory(t)
	ana, bo := newClient(t, e, "ana@h pid 1 x"), newClient(t, e, "bo@h pid 2 x")
	lease := hold(t, ana, "deploy")
	slow := &bulkStore{newClient(t, e, "dash@h pid 3 x"), make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})}
	s := newSite(t, e, func(o *Options) { o.Store = slow })
	l := s.listen("view=/name&name=deploy")
	l.until("ana@h")
	eventually(t, "a listing has read the store", func() bool { return len(slow.read) == 1 })
	if err := lease.Unlock(); err != nil {
		t.Fatal(err)
	}
	hold(t, bo, "deploy")
	l.until("bo@h") // it was read alone
	l.close()       // from now on only listings are seen
	eventually(t, "nobody looks", func() bool { return len(s.d.hub.watched(lookMost)) == 0 })
	close(slow.proceed)
	before, _ := s.d.hub.current()
	eventually(t, "two more listings end", func() bool {
		now, _ := s.d.hub.current()
		return now.listings > before.listings+1
	})
	spans, _ := s.d.history.of("deploy")
	if len(spans) != 1 {
		t.Errorf("ana held it once and bo holds it: %s", spell(spans, time.Now()))
	}
}
