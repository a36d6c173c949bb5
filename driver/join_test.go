package driver_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

func TestJoinedErrorsAreOneLineAndEachIsFound(t *testing.T) {
	t.Parallel()
	path := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}
	err := driver.Join(nil, io.EOF, errors.Join(path, io.ErrClosedPipe), nil, fmt.Errorf("at a: %w", io.EOF), io.EOF)
	for _, is := range []error{io.EOF, path, fs.ErrNotExist, io.ErrClosedPipe} {
		if !errors.Is(err, is) {
			t.Errorf("%v is not %v", err, is)
		}
	}
	if as, ok := errors.AsType[*fs.PathError](err); !ok || as != path {
		t.Errorf("found %v", as)
	}
	if got, want := err.Error(), "EOF; open x: file does not exist; io: read/write on closed pipe; at a: EOF"; got != want {
		t.Errorf("it says %q, not %q", got, want)
	}
	if !errors.Is(fmt.Errorf("so: %w", err), err) {
		t.Error("it is not itself")
	}
}

func TestJoinOfNilErrorsIsNil(t *testing.T) {
	t.Parallel()
	if err := driver.Join(nil, nil); err != nil {
		t.Errorf("%v", err)
	}
	if err := driver.Join(); err != nil {
		t.Errorf("%v", err)
	}
	if err := driver.Join(nil, io.EOF); !errors.Is(err, io.EOF) || err.Error() != "EOF" {
		t.Errorf("%v", err)
	}
}

func TestOneLineJoinsSeveralLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "",
		"one":                       "one",
		"one\n":                     "one",
		"\r\n one \r\n\r\n\ttwo":    "one; two",
		"failed:\n\ta (1)\n\tb,\nc": "failed: a (1); b, c",
		"\n":                        "",
	} {
		if got := driver.OneLine(text); got != want {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
}
