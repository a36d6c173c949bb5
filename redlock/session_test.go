package redlock_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

func openSession(t *testing.T, e driver.Engine, id string, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := e.Open(t.Context(), driver.SessionOptions{ID: id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exclusive(id, name string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: name, Need: 1, Limit: 1}
}

// held enters c until it is held.
func held(t *testing.T, s driver.Session, c driver.Claim) driver.Standing {
	t.Helper()
	var st driver.Standing
	until(t, 10*time.Second, "held", func() bool {
		var err error
		if st, err = s.Enter(t.Context(), c); err != nil || !st.Held {
			c.Try++ // as the core does after an answer
		}
		return err == nil && st.Held
	})
	return st
}

func reader(id, name string) driver.Claim {
	return driver.Claim{ID: id, Try: 1, Name: name, Need: 1, Limit: driver.All}
}

// evict evicts the only claim of a name.
func evict(t *testing.T, e driver.Engine, name string) {
	t.Helper()
	line, err := e.Line(t.Context(), name)
	if err != nil || len(line) != 1 {
		t.Fatal(line, err)
	}
	if err := e.Evict(t.Context(), line[0]); err != nil {
		t.Fatal(err)
	}
}
