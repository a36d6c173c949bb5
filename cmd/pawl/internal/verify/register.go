package verify

import (
	"github.com/pawl-go/pawl/fence"
	"github.com/pawl-go/pawl/internal/history"
)

// A register is the resource outside the store that locks protect. It refuses stale tokens.
type register struct {
	marks map[string]fence.Marks
	seq   int
}

// write decides about a write with a token of a name's lock.
func (r *register) write(name string, token uint64, at history.Time) history.Write {
	r.seq++
	marks, err := r.marks[name].Admit(fence.Write, token)
	if err == nil {
		r.marks[name] = marks
	}
	return history.Write{Seq: r.seq, At: at, Accepted: err == nil}
}
