package sqllock_test

import (
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// What was undone held nothing: nobody is in the way of a free name, least of all
// the one who asked for it.
func TestARefusedEnterAllNamesOnlyOthersAsHolders(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		name := nameOf(t)
		other := openSession(t, r.engine(t), time.Minute)
		taken := mutex(name + "/b")
		hold(t, other, taken)
		s := openSession(t, r.engine(t), time.Minute)
		cs := []driver.Claim{tries(mutex(name + "/c")), tries(mutex(name + "/a")), tries(mutex(name + "/b"))}
		out, err := s.(driver.Multi).EnterAll(t.Context(), cs)
		if err != nil || len(out) != len(cs) {
			t.Fatalf("EnterAll: %+v, %v", out, err)
		}
		for i, st := range out {
			if st.Held || st.Valid != 0 {
				t.Errorf("%s: %+v, though one was taken", cs[i].Name, st)
			}
			if st.Holder != nil && st.Holder.ID != taken.ID {
				t.Errorf("%s is said to be held by %s, which is not there", cs[i].Name, st.Holder.ID)
			}
		}
		if st := out[2]; st.Holder == nil || st.Ahead != 1 {
			t.Errorf("the name that was taken: %+v", st)
		}
	})
}
