package etcdlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/faultproxy"
)

// The client asks again and again, for as long as it is let, where nobody listens. Who
// set no limit must learn of it all the same, as on every other store.
func TestAServerThatIsAwayIsUnreachable(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*faultproxy.Proxy){
		"refused": func(p *faultproxy.Proxy) { p.Refuse(); p.Reset() },
		"silent":  func(p *faultproxy.Proxy) { p.BlackHole(faultproxy.Both) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := faultproxy.New(t, common(t).Addr())
			e := engine(t, []string{p.Addr()})
			if _, _, err := e.Load(t.Context(), "k"); err != nil { // it is there
				t.Fatal(err)
			}
			fault(p)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // in place of none
			defer cancel()
			var all sync.WaitGroup
			for what, call := range map[string]func() error{
				"List": func() (err error) {
					for _, err = range e.List(ctx, "") {
						break
					}
					return err
				},
				"Load":   func() error { _, _, err := e.Load(ctx, "k"); return err },
				"Store":  func() error { _, err := e.Store(ctx, "k", []byte("v"), 0, time.Hour); return err },
				"delete": func() error { _, err := e.Store(ctx, "k", nil, 1, 0); return err },
				"Evict":  func() error { return e.Evict(ctx, driver.Entry{Claim: driver.Claim{Name: "n", ID: newID()}}) },
			} {
				all.Go(func() {
					if err := call(); !errors.Is(err, driver.ErrUnreachable) {
						t.Errorf("%s: %v, not ErrUnreachable", what, err)
					}
				})
			}
			all.Wait()
			p.Heal()
			p.Reset()
		})
	}
}
