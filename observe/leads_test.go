package observe_test

import (
	"maps"
	"testing"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/election"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/observe"
)

func TestLeadsFollowACampaign(t *testing.T) {
	t.Parallel()
	var leads observe.Leads
	waiting := make(chan struct{})
	c := pawl.New(memlock.New(), pawl.WithObserver(pawl.ObserverFunc(func(e pawl.Event) {
		leads.Observe(e)
		if e.Kind == pawl.Waiting {
			close(waiting)
		}
	})))
	t.Cleanup(func() { _ = c.Close() })
	want := func(when string, all map[string]bool) {
		t.Helper()
		if got := leads.All(); !maps.Equal(got, all) {
			t.Errorf("%s: %v, want %v", when, got, all)
		}
	}
	lock, err := c.Mutex("not an election").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	want("before any campaign", map[string]bool{})
	first, err := election.New(c, "job").Campaign(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	want("as leader", map[string]bool{"job": true})
	second := make(chan *election.Leadership)
	go func() { // ends with the leadership of the second
		l, err := election.New(c, "job").Campaign(t.Context(), "b")
		if err != nil {
			t.Error(err)
		}
		second <- l
	}()
	<-waiting
	want("while another candidate of the process waits", map[string]bool{"job": true})
	if err := first.Resign(); err != nil {
		t.Fatal(err)
	}
	l := <-second
	want("as leader again", map[string]bool{"job": true})
	if err := l.Resign(); err != nil {
		t.Fatal(err)
	}
	want("after resigning", map[string]bool{"job": false})
}

func TestACampaignThatOnlyWaitsIsShownAsZero(t *testing.T) {
	t.Parallel()
	engine := memlock.New()
	other := pawl.New(engine)
	t.Cleanup(func() { _ = other.Close() })
	if _, err := election.New(other, "job").Campaign(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	var leads observe.Leads
	waiting := make(chan struct{})
	c := pawl.New(engine, pawl.WithObserver(pawl.ObserverFunc(func(e pawl.Event) {
		leads.Observe(e)
		if e.Kind == pawl.Waiting {
			close(waiting)
		}
	})))
	ended := make(chan struct{})
	go func() { // ends with the client
		defer close(ended)
		_, _ = election.New(c, "job").Campaign(t.Context(), "ours")
	}()
	<-waiting
	if got := leads.All(); !maps.Equal(got, map[string]bool{"job": false}) {
		t.Errorf("%v, want job without a lead", got)
	}
	_ = c.Close()
	<-ended
}
