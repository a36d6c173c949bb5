package verify

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pawl-go/pawl/internal/history"
)

// The coordinator and a worker exchange one JSON value per line: orders on the worker's
// standard input, records on its standard output.

// An order tells a worker what to do.
type order struct {
	Setup *setup        `json:",omitempty"` // the first order
	Fault string        `json:",omitempty"` // bring this fault about on the link
	Delay time.Duration `json:",omitempty"` // of the fault delay
	Heal  bool          `json:",omitempty"`
	Hold  bool          `json:",omitempty"` // hold on to what is held, until Heal
	Rest  bool          `json:",omitempty"` // begin nothing new until GoOn
	GoOn  bool          `json:",omitempty"` // after Rest
	Stop  bool          `json:",omitempty"` // give everything back and exit

	Answer int `json:",omitempty"` // the register has decided about this attempt's write
}

// A setup is what a worker needs to know.
type setup struct {
	Store   string // URL, with its password
	Planted string // address of an engine with a planted bug, in place of Store
	Prefix  string
	TTL     time.Duration
	Workers int
	Slot    int // from 1: which of the workers it is
	Lanes   int // goroutines that use the names for all workers
	Seed    uint64
	Kinds   []kind
}

// A record is one step of an attempt, written before the next one is taken: what a killed
// worker has done is known.
type record struct {
	Ready bool   `json:",omitempty"` // the store is open
	Fatal string `json:",omitempty"` // it is not

	StallFrom, StallTo history.Time `json:",omitempty"`

	ID        int          `json:",omitempty"` // of the attempt, from 1
	Lane      int          `json:",omitempty"`
	Kind      string       `json:",omitempty"` // begins an attempt on the name of this kind
	Need      int          `json:",omitempty"`
	Try       bool         `json:",omitempty"`
	Called    history.Time `json:",omitempty"`
	Queued    history.Time `json:",omitempty"`
	Forgotten history.Time `json:",omitempty"`
	Cancelled history.Time `json:",omitempty"`

	Returned history.Time   `json:",omitempty"`
	Result   history.Result `json:",omitempty"`
	Err      string         `json:",omitempty"`
	Token    uint64         `json:",omitempty"`
	Lasts    time.Duration  `json:",omitempty"` // until the lease's first deadline

	Write bool         `json:",omitempty"` // asks the register
	At    history.Time `json:",omitempty"`
	Wrote history.Time `json:",omitempty"` // the answer came

	Alive    history.Time `json:",omitempty"`
	Told     history.Time `json:",omitempty"`
	Early    bool         `json:",omitempty"`
	Unlock   history.Time `json:",omitempty"`
	Unlocked history.Time `json:",omitempty"`
	End      history.End  `json:",omitempty"`
}

// A lineWriter writes values as lines, each in one write.
type lineWriter struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (l *lineWriter) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.w.Write(append(b, '\n'))
	return err
}

// readLines calls each for every line of r until it ends. A last line that was cut off, as
// a killed process leaves it, is none.
func readLines[T any](r io.Reader, each func(T)) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		b, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var v T
		if err := json.Unmarshal(b, &v); err != nil {
			return fmt.Errorf("%w: %.100q", err, b)
		}
		each(v)
	}
}
