package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/quorum"
)

// BenchmarkEnterLeave measures the cost of the quorum itself, on nodes in memory.
func BenchmarkEnterLeave(b *testing.B) {
	for _, n := range []int{3, 5} {
		b.Run(fmt.Sprint(n, " nodes"), func(b *testing.B) {
			e, err := quorum.New(nodes(n))
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			s, err := e.Open(b.Context(), driver.SessionOptions{ID: "s", TTL: time.Minute})
			if err != nil {
				b.Fatal(err)
			}
			c := driver.Claim{ID: "0123456789abcdef0123456789abcdef", Name: "name", Need: 1, Limit: 1}
			b.ReportAllocs()
			for b.Loop() {
				c.Try++
				if st, err := s.Enter(b.Context(), c); err != nil || !st.Held {
					b.Fatal(st, err)
				}
				if err := s.Leave(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
