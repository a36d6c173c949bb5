// Package sqlexam is what the examiners of database servers share: they open the engine,
// borrow one of its connections, and run a table of checks on it.
package sqlexam

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlline"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A Server is a database server that is being examined.
type Server struct {
	*sqlstore.Examined
	Query sqlstore.Query

	Pooled         bool // a pooler is in between
	PerTransaction bool // and it assigns connections per transaction
}

// ErrSkip is the error of a check that has nothing to look at, because of what another
// check found.
var ErrSkip = errors.New("nothing to look at")

// A Check is one check of a server, with what its examiner has read of it. An error says
// that the check could not be made.
type Check[S any] struct {
	Name   string
	Look   func(ctx context.Context, s S) (doctor.Finding, error)
	Shared bool // locks ask the same, so that what refuses the check refuses them
}

// Examine opens the engine of a URL and runs examine with one of its connections.
func Examine(ctx context.Context, u *url.URL, examine func(ctx context.Context, s *Server) ([]doctor.Finding, error)) (found []doctor.Finding, err error) {
	open, ok := driver.Lookup(u.Scheme)
	if !ok {
		return nil, driver.BadURL("no engine has the scheme %s", u.Scheme)
	}
	e, err := open(ctx, u)
	if err != nil {
		return nil, err
	}
	defer func() { err = driver.Join(err, e.Close()) }()
	x := sqlline.ExaminedOf(e)
	if x == nil {
		return nil, fmt.Errorf("%w: the engine cannot be examined", driver.ErrUnsupported)
	}
	s := &Server{Examined: x}
	if x.Pooler != nil { // before a connection is borrowed: there may be only one
		if s.Pooled, s.PerTransaction, err = x.Pooler(ctx); err != nil {
			return nil, err
		}
	}
	err = x.With(ctx, func(q sqlstore.Query) (err error) {
		s.Query = q
		found, err = examine(ctx, s)
		return err
	})
	return found, err
}

// Run makes all checks, in order. A check that could not be made is a finding too.
func Run[S any](ctx context.Context, s S, checks []Check[S]) (found []doctor.Finding) {
	for _, c := range checks {
		f, err := c.Look(ctx, s)
		switch {
		case errors.Is(err, ErrSkip):
			continue
		case errors.Is(err, driver.ErrDenied):
			f = doctor.Warn("", "cannot read it: "+Line(err), "This check was not made: the user has no right to read what it needs.", f.Mend)
		case err != nil && !c.Shared && answers(ctx, s):
			f = doctor.Warn("", "cannot read it: "+Line(err), "This check was not made: the server refuses its question, which locks do not ask.",
				"go install github.com/pawl-go/pawl/cmd/pawl@latest # a newer one may know this server")
		case err != nil:
			f = doctor.Break("", "not examined: "+Line(err), "Locks may fail as this check did.", "pawl doctor -s URL, when the reason is gone")
		}
		f.Check = c.Name
		found = append(found, f)
	}
	return found
}

// answers reports whether a database server still answers after a question has failed.
func answers(ctx context.Context, s any) bool {
	server, ok := s.(interface{ one() *Server })
	if !ok {
		return false
	}
	_, err := server.one().Query(ctx, "SELECT 1")
	return err == nil
}

func (s *Server) one() *Server { return s }

// Line returns an error as one line.
func Line(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// One returns the first column of the first row, "" if there is none.
func (s *Server) One(ctx context.Context, text string) (string, error) {
	rows, err := s.Query(ctx, text)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][0], nil
}

// Pairs returns rows of two columns as a map.
func (s *Server) Pairs(ctx context.Context, text string) (map[string]string, error) {
	rows, err := s.Query(ctx, text)
	all := map[string]string{}
	for _, r := range rows {
		all[strings.ToLower(r[0])] = r[1]
	}
	return all, err
}

// Faults collects what is wrong with several settings of one check, and the statements
// that correct them.
type Faults struct {
	found, meaning, mend []string
	level                doctor.Level
}

// Add notes a fault. The same meaning is written once.
func (f *Faults) Add(level doctor.Level, found, meaning, mend string) {
	f.level = max(f.level, level)
	f.found = append(f.found, found)
	if !strings.Contains(strings.Join(f.meaning, " "), meaning) {
		f.meaning = append(f.meaning, meaning)
	}
	if !strings.Contains(strings.Join(f.mend, " "), mend) {
		f.mend = append(f.mend, mend)
	}
}

// Level returns the worst level so far.
func (f *Faults) Level() doctor.Level { return f.level }

// Finding returns all faults as one finding, or a good one.
func (f *Faults) Finding(good string) doctor.Finding {
	if len(f.found) == 0 {
		return doctor.Good("", good)
	}
	return doctor.Finding{Level: f.level, Found: strings.Join(f.found, ", "),
		Meaning: strings.Join(f.meaning, " "), Mend: strings.Join(f.mend, " ")}
}

// Connections judges how many more connections the server accepts from this user. left
// includes those that the examination itself uses.
func Connections(s *Server, left int, found, mend string) doctor.Finding {
	need := s.Conns + s.Further
	found += fmt.Sprintf(", and a client uses up to %d", need)
	switch {
	case left < least:
		return doctor.Break("", found, "A client finds no connection: locks cannot be taken, and leases are lost because they are not renewed.", mend)
	case left < need:
		return doctor.Warn("", found, "A busy client finds too few connections: calls wait or fail, and renewals may come too late.", mend)
	case s.Conns == 1:
		return doctor.Warn("", "the URL permits one connection for the calls of a process", "Each lock call of the process waits for the one before it, and all of them for a slow one.", poolMend(s))
	}
	return doctor.Good("", found)
}

// LongTransaction is how long a transaction may be open. A name in steady use has some
// hundred thousand versions of its row by then, which every statement has to pass.
const LongTransaction = 15 * time.Minute

// ShortStatement is the least time that a server should give a statement: a beat queues
// for a row that is in use for up to a second.
const ShortStatement = time.Second

// least is how many connections a client needs at least: one for calls, one for beats.
const least = 2

func poolMend(s *Server) string {
	if s.Pooler != nil {
		return "-s 'postgres://HOST/DATABASE?pool_max_conns=4'"
	}
	return "-s 'mysql://HOST/DATABASE?max_conns=4'"
}
