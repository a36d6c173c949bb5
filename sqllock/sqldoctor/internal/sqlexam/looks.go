package sqlexam

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/doctor"
)

// migrate is the line that makes the tables.
const migrate = "pawl migrate -s URL"

// Tables returns the names of pawl's tables, with commas.
func (s *Server) Tables() string {
	return strings.Join([]string{s.Meta, s.Head, s.Claim, s.Record}, ", ")
}

// NotThere judges tables, given with commas, that belong to another program or do not
// exist. It returns false if there are none.
func NotThere(foreign, absent string) (doctor.Finding, bool) {
	switch {
	case foreign != "":
		return doctor.Break("", foreign+" is there and not pawl's", "Locks fail on a table that belongs to another program.",
			"pawl migrate -s 'URL?table_prefix=locks_'"), true
	case absent != "":
		return doctor.Break("", "there is no "+absent, "No lock can be taken before the tables are made.", migrate), true
	}
	return doctor.Finding{}, false
}

// TableVersion judges the version of the tables. text is the statement that reads it.
func (s *Server) TableVersion(ctx context.Context, text string) (doctor.Finding, error) {
	value, err := s.One(ctx, text)
	if err != nil {
		return doctor.Finding{}, err
	}
	n, _ := strconv.Atoi(value) // no row: 0, of which there is no version
	found := fmt.Sprintf("the tables are of version %d, this program knows version %d", n, s.Version)
	switch {
	case n < s.Version:
		return doctor.Break("", found, "Locks are refused on tables of another version.", migrate), nil
	case n > s.Version:
		return doctor.Break("", found, "Locks are refused on tables of another version.", "go install github.com/pawl-go/pawl/cmd/pawl@latest"), nil
	}
	return doctor.Good("", fmt.Sprintf("%s are of version %d", s.Tables(), n)), nil
}

// Clock compares the server's clock with ours. text is the statement that reads it, in
// microseconds since 1970.
func (s *Server) Clock(ctx context.Context, text string) doctor.Finding {
	return doctor.Clock(ctx, "Leases end by the server's clock: when it is corrected forward they end early, and backward names of dead holders stay locked for longer.",
		"timedatectl set-ntp true", func(ctx context.Context) (time.Time, error) {
			micros, err := s.One(ctx, text)
			if err != nil {
				return time.Time{}, err
			}
			n, err := strconv.ParseInt(micros, 10, 64)
			return time.UnixMicro(n), err
		})
}

// RoundTrip measures how long the server takes to answer.
func (s *Server) RoundTrip(ctx context.Context) doctor.Finding {
	return doctor.RoundTrip(ctx, "Run the clients in the server's network, or use a store that is closer.", func(ctx context.Context) error {
		_, err := s.Query(ctx, "SELECT 1")
		return err
	})
}
