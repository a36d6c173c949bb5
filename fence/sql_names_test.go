package fence_test

import (
	"database/sql"
	"testing"

	"github.com/pawl-go/pawl/fence"
)

func TestResourcesOfOneTableAreApart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r resource) {
		s, ok := r.(*inSQL)
		if !ok {
			return // one mark each
		}
		for i, name := range []string{"a", "A", "a ", "ä", "a%", "a/b"} {
			token := base - uint64(i) // smaller than that of any other
			if err := s.in(func(tx *sql.Tx) error { return s.marks.Begin(t.Context(), tx, name, fence.Write, token) }); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}
