package pawl

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// errLines is what a store or its client may say: several lines, of several errors.
var errLines = errors.Join(driver.ErrUnreachable, errors.New("failed to connect to `user=a`:\n\thost (1.2.3.4): refused\r\n\thost (::1): refused\n")) //nolint:staticcheck // as a client says it

func oneLine(t *testing.T, about string, err error, is ...error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", about)
		return
	}
	for _, want := range is {
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, not %q", about, err, want)
		}
	}
	if text := err.Error(); strings.ContainsAny(text, "\r\n") {
		t.Errorf("%s: %q", about, text)
	}
}

func TestWhatAStoreSaysOnSeveralLinesIsOneLine(t *testing.T) {
	withFaults(t, func(t *testing.T, c *Client, r *faultEngine) {
		ctx := t.Context()
		held := must(t)(c.LockAll(ctx, []string{"a", "b"}))
		done := errors.New("what the function says\non two lines")
		r.set(func(r *faultEngine) {
			r.enter = func(context.Context, driver.Claim, func(context.Context) (driver.Standing, error)) (driver.Standing, error) {
				return driver.Standing{}, errLines
			}
			r.leave = func(context.Context, driver.Claim, func(context.Context) error) error { return errLines }
		})
		_, err := c.Mutex("c").TryLock(ctx)
		oneLine(t, "TryLock", err, ErrUnreachable)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = c.Mutex("c").Lock(short)
		oneLine(t, "Lock", err, ErrUnreachable, context.DeadlineExceeded)
		_, err = c.LockAll(short, []string{"c", "d"})
		oneLine(t, "LockAll", err)
		oneLine(t, "Unlock", held.Unlock(), ErrUnknown, ErrUnreachable)
		r.set(func(r *faultEngine) { r.enter = nil })
		err = c.Mutex("e").Do(ctx, func(context.Context, *Lease) error { return done })
		oneLine(t, "Do", err, done, ErrUnknown)
		must(t)(c.Mutex("f", WithTTL(time.Minute)).Lock(ctx))
		must(t)(c.Mutex("g").Lock(ctx))
		r.set(func(r *faultEngine) { r.leave, r.close = nil, errLines })
		oneLine(t, "Close", c.Close(), ErrUnreachable)
	})
}

// errors.Join puts every error on a line of its own; driver.Join does not.
func TestNoErrorOfTheLibraryIsJoinedOverSeveralLines(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "bench" || path == "e2e" || path == "examples" || path == "internal" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir // nothing of them reaches a user of the library but through the command, which has one line for each
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "drivertest/"):
			return nil
		}
		src, err := os.ReadFile(path)
		if strings.Contains(string(src), "errors.Join(") {
			t.Errorf("%s: errors.Join; use driver.Join", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
