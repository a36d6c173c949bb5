package recipe_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/recipe"
	"github.com/pawl-go/pawl/memlock"
)

func TestTwoKeysNeverShareAName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 300)
	hashed, err := recipe.Name("once", long)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, kind := range []string{"once", "cell", "election"} {
		for _, key := range []string{"a", "A", "a/b", "a ", ".pawl/once/a", "once/a", long, long + "k", hashed, "long/a"} {
			name, err := recipe.Name(kind, key)
			if err != nil {
				t.Fatal(err)
			}
			if other, taken := seen[name]; taken {
				t.Errorf("%s %.20q and %.30q are both %q", kind, key, other, name)
			}
			seen[name] = kind + " " + key
			if len(name) > pawl.MaxName || !strings.HasPrefix(name, recipe.Reserved) {
				t.Errorf("%q is no name", name)
			}
		}
	}
}

// A store that does the write and loses the reply; then a rival may come.
type lossy struct {
	*memlock.Engine
	lose  int
	rival func()
}

func (l *lossy) Store(ctx context.Context, key string, value []byte, ifVersion uint64, keep time.Duration) (uint64, error) {
	v, err := l.Engine.Store(ctx, key, value, ifVersion, keep)
	if l.lose > 0 && err == nil {
		l.lose--
		if l.rival != nil {
			l.rival()
		}
		return 0, driver.ErrUnreachable
	}
	return v, err
}

func TestAWriteWhoseReplyWasLostIsKnownByItsMark(t *testing.T) {
	t.Parallel()
	l := &lossy{Engine: memlock.New(), lose: 1}
	one, err := recipe.Put(t.Context(), l, "k", []byte("one"), 0, 0, time.Second)
	if err != nil || one == 0 {
		t.Fatalf("version %d, %v", one, err)
	}
	l.lose = 1
	if _, err := recipe.Put(t.Context(), l, "k", nil, one, 0, time.Second); err != nil {
		t.Errorf("a deletion: %v", err)
	}
}

// Ours was written, its reply lost, and a rival wrote over it: whether ours was ever
// there cannot be known any more, and is not guessed.
func TestAWriteThatMayHaveBeenOverwrittenIsUnknown(t *testing.T) {
	t.Parallel()
	l := &lossy{Engine: memlock.New(), lose: 1}
	l.rival = func() {
		_, version, err := l.Load(t.Context(), "k")
		if err == nil {
			_, err = l.Engine.Store(t.Context(), "k", []byte("rival"), version, 0)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := recipe.Put(t.Context(), l, "k", []byte("ours"), 0, 0, time.Second); !errors.Is(err, pawl.ErrUnknown) {
		t.Errorf("%v, not ErrUnknown", err)
	}
	if _, err := recipe.Put(t.Context(), l, "k", []byte("ours"), 0, 0, time.Second); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("an ordinary conflict: %v", err)
	}
}
