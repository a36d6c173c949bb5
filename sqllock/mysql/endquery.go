package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// A cancelled statement that waits for a row goes on waiting in the server, with its
// connection, for as long as innodb_lock_wait_timeout says: the client only closes its
// end. Callers that come and give up would take connections beyond every limit of the
// pool. So such statements are ended, by another connection: each begins with a comment
// by which it is found among the statements of this user.
type queryEnder struct {
	from source

	mu      sync.Mutex          // guards what follows
	tags    map[string]struct{} // of statements whose callers gave up
	running bool                // run does
	closed  bool
	ended   sync.WaitGroup // for run
}

const tagStart = "/* pawl "

// newTag returns the comment with which a statement begins.
func newTag() string { return tagStart + rand.Text() + " */ " }

// end ends the statement with a tag, soon and in the background.
func (q *queryEnder) end(tag string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if q.tags == nil {
		q.tags = map[string]struct{}{}
	}
	q.tags[tag] = struct{}{}
	if !q.running {
		q.running = true
		q.ended.Go(q.run) // close waits for it
	}
}

// run ends statements until none is left.
func (q *queryEnder) run() {
	for {
		q.mu.Lock()
		tags := q.tags
		q.tags = nil
		if q.running = len(tags) > 0; !q.running {
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		// If it fails they end by themselves.
		_ = q.from.with(ctx, &sqlstore.Batch{Beat: true}, func(c *sql.Conn) error { return endQueries(ctx, c, tags) })
		cancel()
	}
}

// endQueries ends the statements with these tags. A user sees, and may end, the
// statements of the same user. QUERY: should the connection have another client by now,
// as behind a proxy, no more than a statement is lost.
func endQueries(ctx context.Context, c *sql.Conn, tags map[string]struct{}) error {
	got, err := query(ctx, c, "SELECT id, LEFT(info, 60) FROM information_schema.processlist WHERE info LIKE '"+tagStart+"%'")
	var errs []error
	for _, row := range got {
		tag, _, _ := strings.Cut(string(row[1].([]byte)), "*/ ")
		if _, ours := tags[tag+"*/ "]; ours {
			_, err := c.ExecContext(ctx, fmt.Sprintf("KILL QUERY %s", row[0]))
			errs = append(errs, err)
		}
	}
	return driver.Join(append(errs, err)...)
}

// close waits until no statement is being ended.
func (q *queryEnder) close() {
	q.mu.Lock()
	q.closed, q.tags = true, nil
	q.mu.Unlock()
	q.ended.Wait()
}
