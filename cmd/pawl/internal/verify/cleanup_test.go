package verify

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// Claims of workers that were killed hold and wait. If the holder is removed first, the
// next one holds, and is another claim than the one that was listed.
func TestALineOfDeadWorkersIsRemovedWhole(t *testing.T) {
	engine := memlock.New()
	defer engine.Close()
	kinds := kindsOf(engine.Features(), 2)
	for _, k := range kinds {
		for n := range 4 {
			s, err := engine.Open(t.Context(), driver.SessionOptions{ID: strings.Repeat(string(rune('a'+n)), 32), TTL: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			id := k.Name + strings.Repeat(string(rune('a'+n)), 32)
			if _, err := s.Enter(t.Context(), driver.Claim{ID: id[len(id)-32:], Try: 1, Name: "p/" + k.Name, Need: 1, Limit: k.Limit, Queue: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	client := pawl.New(engine)
	defer client.Close()
	r := &run{Config: Config{Prefix: "p/", TTL: time.Hour}, recorder: newRecorder(kinds)}
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	left, err := r.cleanUp(interrupted, client)
	if err != nil || len(left) != 4*len(kinds) {
		t.Errorf("%d claims were found, %v", len(left), err)
	}
	for e, err := range client.List(t.Context(), "") {
		t.Errorf("left: %+v, %v", e, err)
	}
}
