package observe

import (
	"iter"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Invalid is the class of a name for which the user's function panicked.
const Invalid = "invalid"

// Classes are the metrics of an exporter by class: one S for each class of lock names that was
// seen, and never one for a lock.
type Classes[S any] struct {
	class  func(name string) string // nil: all names are of one class, ""
	create func(class string) *S
	one    *S                                       // of the class "", if there is no other
	all    atomic.Pointer[map[string]classified[S]] // by what class returned; copied to be changed
	mu     sync.Mutex                               // held while all is changed
}

type classified[S any] struct {
	class string
	s     *S
}

// NewClasses returns metrics by class; create makes those of one class, which is valid UTF-8.
// It is called once for a class. Without a function there is one class, "", from the start.
func NewClasses[S any](class func(name string) string, create func(class string) *S) *Classes[S] {
	c := &Classes[S]{class: class, create: create}
	c.all.Store(&map[string]classified[S]{})
	if class == nil {
		c.one = c.add("")
	}
	return c
}

// Of returns the metrics of the class that name is of.
func (c *Classes[S]) Of(name string) *S {
	if c.class == nil {
		return c.one
	}
	class := c.classify(name)
	if known, ok := (*c.all.Load())[class]; ok {
		return known.s
	}
	return c.add(class)
}

// All yields the classes that were seen, each once, with their metrics.
func (c *Classes[S]) All() iter.Seq2[string, *S] {
	return func(yield func(string, *S) bool) {
		for class, known := range *c.all.Load() {
			if class == known.class && !yield(class, known.s) {
				return
			}
		}
	}
}

// classify calls the user's function. Its panic is not passed on: the event would be lost, and
// with it the balance of gauges.
func (c *Classes[S]) classify(name string) (class string) {
	defer func() {
		if recover() != nil {
			class = Invalid
		}
	}()
	return c.class(name)
}

// add makes the metrics of a class that is new. A class that is not valid UTF-8, which no label
// can be, gets those of its valid form.
func (c *Classes[S]) add(class string) *S {
	class = strings.Clone(class) // it may be a part of a long name
	valid := strings.ToValidUTF8(class, "\uFFFD")
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(*c.all.Load())
	known, ok := all[valid]
	if !ok {
		known = classified[S]{valid, c.create(valid)}
		all[valid] = known
	}
	all[class] = known
	c.all.Store(&all)
	return known.s
}
