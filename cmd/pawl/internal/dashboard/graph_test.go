package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// outline draws the tree as text, one session a line.
func outline(nodes []treeNode, indent string) string {
	var b strings.Builder
	for _, n := range nodes {
		name := ""
		if n.Wait != nil {
			name = " " + n.Wait.Title
		}
		b.WriteString(indent + n.Session + name + "\n" + outline(n.Children, indent+"  "))
	}
	return b.String()
}

func tree(entries ...driver.Entry) treeBody {
	return buildTree(nil, &state{snap: snap(time.Now(), entries...)}, time.Now(), nil).Body.(treeBody)
}

func TestTheTreeBeginsWithTheRootBlockers(t *testing.T) {
	b := tree(
		held("root", "deploy", time.Minute), waits("middle", "deploy", time.Minute), waits("other", "deploy", time.Second),
		held("middle", "db", time.Minute), waits("leaf", "db", time.Minute),
		held("alone", "free", time.Minute))
	want := "root\n  middle deploy\n    leaf db\n  other deploy\n"
	if got := outline(b.Roots, ""); got != want || len(b.Rings) > 0 || b.Cut {
		t.Errorf("got\n%swant\n%s%+v", got, want, b.Rings)
	}
	if b.Roots[0].Behind != 3 {
		t.Errorf("%d behind the root, want 3", b.Roots[0].Behind)
	}
}

func TestReadersBehindAWriterWaitForTheWriter(t *testing.T) {
	b := tree(
		reader(held("r1", "x", time.Minute)), reader(held("r2", "x", time.Minute)),
		writer(waits("w", "x", time.Minute)), reader(waits("r3", "x", time.Second)))
	want := "r1\n  w x\n    r3 x\nr2\n  w x\n    r3 x\n"
	if got := outline(b.Roots, ""); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestPermitsAreWaitedForIfTheyDoNotFit(t *testing.T) {
	permits := func(e driver.Entry, need int) driver.Entry { e.Need, e.Limit = need, 4; return e }
	b := tree(permits(held("h", "gpu", time.Minute), 3), permits(waits("big", "gpu", time.Minute), 2), permits(waits("small", "gpu", time.Second), 1))
	want := "h\n  big gpu\n    small gpu\n" // small would fit, but big is ahead of it
	if got := outline(b.Roots, ""); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestACycleIsARing(t *testing.T) {
	b := tree(
		held("a", "1", time.Minute), held("b", "2", time.Minute), held("c", "3", time.Minute),
		waits("a", "2", time.Minute), waits("b", "3", time.Minute), waits("c", "1", time.Minute),
		waits("late", "3", time.Second))
	if len(b.Rings) != 1 || len(b.Roots) != 0 {
		t.Fatalf("%d rings and %d roots", len(b.Rings), len(b.Roots))
	}
	ring := b.Rings[0]
	var steps []string
	for _, s := range ring.Steps {
		steps = append(steps, fmt.Sprintf("%d %s waits for %s behind %d", s.Number, s.Session, s.Wait.Title, s.Next))
	}
	want := []string{"1 c waits for 1 behind 2", "2 a waits for 2 behind 3", "3 b waits for 3 behind 1"}
	if !slices.Equal(steps, want) || ring.Size != 3 {
		t.Errorf("steps %q of %d, want %q", steps, ring.Size, want)
	}
	if got := outline(ring.Below, ""); got != "late 3\n" {
		t.Errorf("behind the ring:\n%s", got)
	}
}

func TestARingThatIsNotDrawnWholeDoesNotClose(t *testing.T) {
	var all []driver.Entry
	const size = maxRing + 4
	session := func(i int) string { return fmt.Sprintf("s%02d", i%size) }
	for i := range size {
		all = append(all, held(session(i), session(i), 0), waits(session(i), session(i+1), 0))
	}
	b := tree(all...)
	if len(b.Rings) != 1 || b.Rings[0].Size != size || len(b.Rings[0].Steps) != maxRing || b.Rings[0].Hidden != 4 || b.Rings[0].Steps[maxRing-1].Next != maxRing+1 {
		t.Errorf("%+v", b.Rings)
	}
}

func TestTheShortestOfSeveralCyclesIsDrawn(t *testing.T) {
	b := tree(
		held("a", "1", 0), held("b", "2", 0), held("c", "3", 0),
		waits("a", "2", 0), waits("b", "3", 0), waits("c", "1", 0), waits("b", "1", 0))
	if len(b.Rings) != 1 || b.Rings[0].Size != 3 || len(b.Rings[0].Steps) != 2 {
		t.Errorf("%+v", b.Rings)
	}
}

func TestASessionDoesNotWaitForItself(t *testing.T) {
	permits := func(e driver.Entry, id string) driver.Entry { e.Need, e.Limit, e.ID = 2, 2, id; return e }
	b := tree(permits(held("a", "pool", 0), "1"), permits(waits("a", "pool", 0), "2"))
	if len(b.Rings)+len(b.Roots) > 0 {
		t.Errorf("%+v", b)
	}
}

func TestALargeTreeIsCutAndSaysSo(t *testing.T) {
	var chain []driver.Entry
	for i := range 30 {
		chain = append(chain, held(fmt.Sprint("s", i), fmt.Sprint("n", i), 0))
	}
	for i := range 29 {
		chain = append(chain, waits(fmt.Sprint("s", i+1), fmt.Sprint("n", i), 0))
	}
	if b := tree(chain...); !b.Cut || strings.Count(outline(b.Roots, ""), "\n") != maxDepth+1 {
		t.Errorf("a deep tree: cut %v\n%s", b.Cut, outline(b.Roots, ""))
	}
	wide := []driver.Entry{held("root", "x", 0)}
	for i := range 2 * maxNodes {
		wide = append(wide, waits(fmt.Sprint("s", i), "x", 0))
	}
	if b := tree(wide...); !b.Cut || strings.Count(outline(b.Roots, ""), "\n") != maxNodes {
		t.Errorf("a wide tree: cut %v, %d nodes", b.Cut, strings.Count(outline(b.Roots, ""), "\n"))
	}
	if g := newGraph(snap(time.Now(), wide...).lines, 10); !g.cut || len(g.waits) != 10 {
		t.Errorf("a graph of 10 edges: cut %v, %d", g.cut, len(g.waits))
	}
}
