package sqlite

import (
	"context"
	"os"
	"sync"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// store is a file with one connection that writes and one that reads.
type store struct {
	path    string
	live    *os.File // the liveness file
	writer  *conn
	closing chan struct{} // closed by close

	mu     sync.Mutex // guards reader
	reader *conn      // made when it is first needed: taking a free lock reads nothing
}

var _ sqlstore.Store = (*store)(nil)

func (s *store) open(ctx context.Context, path string, ck clock, l *liveness) (err error) {
	s.path, s.live = path, l.file
	if s.writer, err = openConn(ctx, s.path, ck, s.closing); err != nil {
		return err
	}
	if err = s.writer.initialize(ctx, l); err != nil {
		return err
	}
	return s.writer.findFiles()
}

// Run executes a batch. SQLite permits one writing transaction at a time, so a batch that
// has begun is alone on the file, and the clock is read after that.
func (s *store) Run(ctx context.Context, b *sqlstore.Batch) error {
	if b.ReadOnly {
		return s.read(ctx, b)
	}
	if err := s.writer.acquire(ctx, b.Beat); err != nil {
		return err
	}
	defer s.writer.release()
	if err := s.writer.checkMovedBefore(); err != nil {
		return err
	}
	s.writer.touch(s.live)
	err := s.writer.run(ctx, b)
	if isDiskFull(err) && s.writer.checkpoint() == nil {
		err = s.writer.run(ctx, b) // the failed batch was rolled back, and the log has room again
	}
	if err == nil {
		return s.writer.checkMovedAfter()
	}
	return explainFull(classify(err), s.path)
}

// read executes statements on the connection that reads: they see every batch that this
// process has committed.
func (s *store) read(ctx context.Context, b *sqlstore.Batch) error {
	r, err := s.acquireReader(ctx)
	if err != nil {
		return err
	}
	defer r.release()
	return classify(r.run(ctx, b))
}

// version changes whenever another connection has committed.
func (s *store) version(ctx context.Context) (int64, error) {
	r, err := s.acquireReader(ctx)
	if err != nil {
		return 0, err
	}
	defer r.release()
	v, err := r.dataVersion()
	return v, classify(err)
}

// acquireReader waits for the connection that reads.
func (s *store) acquireReader(ctx context.Context) (*conn, error) {
	r, err := s.openReader(ctx)
	if err != nil {
		return nil, classify(err)
	}
	return r, r.acquire(ctx, false)
}

// openReader returns the connection that reads, and makes it for the first caller.
func (s *store) openReader(ctx context.Context) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		return nil, errClosed
	default:
	}
	if s.reader != nil {
		return s.reader, nil
	}
	r, err := openConn(ctx, s.path, s.writer.clock, s.closing)
	if err != nil {
		return nil, err
	}
	if err := r.db.Exec("PRAGMA query_only = ON"); err != nil {
		return nil, driver.Join(err, r.close(nil))
	}
	s.reader = r
	return r, nil
}

// close ends calls that wait for other processes, then the connections, and reports
// whether rows still have the id owner: that is read when this process cannot write any
// more. It is called once.
func (s *store) close(owner string) (hasRows bool, err error) {
	s.mu.Lock()
	close(s.closing)
	r := s.reader
	s.mu.Unlock()
	err = r.close(nil)
	return hasRows, driver.Join(err, s.writer.close(func() {
		hasRows = s.writer.hasRows(owner)
		s.writer.keepSmallLog()
		s.writer.abandonMoved()
	}))
}
