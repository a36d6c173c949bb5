package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

type metrics struct{ class string }

func newMetrics(class string) *metrics { return &metrics{class} }

func TestWithoutAFunctionThereIsOneClassFromTheStart(t *testing.T) {
	t.Parallel()
	c := NewClasses(nil, newMetrics)
	if all := maps.Collect(c.All()); len(all) != 1 || all[""] == nil {
		t.Fatalf("the classes are %v, want one without a name", all)
	}
	if c.Of("a") != c.Of("b") {
		t.Fatal("two names have different metrics")
	}
}

func TestAClassIsMadeOnceHoweverManyAsk(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	c := NewClasses(func(name string) string { class, _, _ := strings.Cut(name, "/"); return class },
		func(class string) *metrics { made.Add(1); return newMetrics(class) })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				name := fmt.Sprintf("class%d/%d", i%5, i)
				if got := c.Of(name).class; !strings.HasPrefix(name, got+"/") {
					t.Errorf("%q got the metrics of %q", name, got)
				}
			}
		})
	}
	all.Wait()
	if made.Load() != 5 || len(maps.Collect(c.All())) != 5 {
		t.Fatalf("%d were made and %d are there, want 5", made.Load(), len(maps.Collect(c.All())))
	}
}

func TestAFunctionThatPanicsOrReturnsBytesDoesNoHarm(t *testing.T) {
	t.Parallel()
	c := NewClasses(func(name string) string {
		if name == "" {
			panic("no name")
		}
		return name
	}, newMetrics)
	if got := c.Of("").class; got != Invalid {
		t.Errorf("a panic makes the class %q, want %q", got, Invalid)
	}
	if c.Of("a\xff") != c.Of("a\xfe") || c.Of("a\xff").class != "a\uFFFD" {
		t.Errorf("a class that is not UTF-8 is %q", c.Of("a\xff").class)
	}
	if got := slices.Sorted(maps.Keys(maps.Collect(c.All()))); !slices.Equal(got, []string{"a\uFFFD", Invalid}) {
		t.Errorf("the classes are %q: each must be there once", got)
	}
}
