package sqllock_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

// tables are new tables for one test, and the name that theirs begin with.
func (r *rig) tables(t testing.TB) (own *rig, prefix string) {
	t.Helper()
	fresh := *r
	own, prefix = &fresh, "pawl_"
	if r.name == "sqlite" {
		file := filepath.Join(t.TempDir(), "pawl.db")
		own.url, own.dsn = "sqlite://"+file, "file:"+file+"?_pragma=busy_timeout(10000)"
		db, err := sql.Open(r.driver, own.dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		own.db = db
		openSession(t, own.engine(t), 0) // makes the tables
		return own, prefix
	}
	prefix = "t" + newID()[:10] + "_"
	own.url += map[bool]string{true: "&", false: "?"}[strings.Contains(r.url, "?")] + "table_prefix=" + prefix
	own.migrate(t)
	return own, prefix
}

// far is an expiry that no clock reaches.
const far = int64(1) << 54

// fill writes names straight into the tables: every third is idle, every tenth has
// three who wait. It returns the claims in the order of a list.
func (r *rig) fill(t testing.TB, prefix string, names int) (want []driver.Claim) {
	t.Helper()
	var heads, claims []string
	for i := range names {
		name, token := fmt.Sprintf("n%06d", i), int64(1000+10*i)
		id, until := newID(), far
		if i%3 == 0 {
			id, until = "", 0
		} else {
			want = append(want, driver.Claim{ID: id, Name: name})
		}
		waiting := 0
		if i%10 == 1 {
			for waiting < 3 {
				waiting++
				c := driver.Claim{ID: newID(), Name: name}
				want = append(want, c)
				claims = append(claims, fmt.Sprintf("('%s',%d,'%s',1,'s','','',1,1,1,0,1,%d)", name, token+int64(waiting), c.ID, far))
			}
		}
		heads = append(heads, fmt.Sprintf("('%s',%d,'%s',1,%d,'s','','',1,1,1,1,%d,0,%d,0)", name, token+9, id, token, until, waiting))
	}
	for table, rows := range map[string][]string{"head": heads, "claim": claims} {
		for part := range slices.Chunk(rows, 500) {
			r.exec(t, "INSERT INTO "+prefix+table+" VALUES "+strings.Join(part, ","))
		}
	}
	return want
}

func TestAListOfManyPagesShowsEveryClaimOnceAndInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		want := own.fill(t, prefix, 2400)
		e := own.engine(t)
		for _, of := range []string{"", "n", "n00", "n0011", "n002399", "o"} {
			var got, should []string
			for x, err := range e.List(t.Context(), of) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, x.Name+" "+x.ID)
			}
			for _, c := range want {
				if strings.HasPrefix(c.Name, of) {
					should = append(should, c.Name+" "+c.ID)
				}
			}
			if !slices.Equal(got, should) {
				t.Errorf("List(%q) shows %d claims of %d, or not in order", of, len(got), len(should))
			}
		}
	})
}

// A line that is longer than a page is listed whole too.
func TestAListOfOneLongLineShowsEveryClaimOnceAndInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		first, e := mutex("long"), own.engine(t)
		own.exec(t, fmt.Sprintf("INSERT INTO %shead VALUES ('long',9000,'%s',1,10,'s','','',1,1,1,1,%d,0,1300,0)", prefix, first.ID, far))
		want := []string{first.ID}
		var rows []string
		for i := range 1300 {
			id := newID()
			want = append(want, id)
			rows = append(rows, fmt.Sprintf("('long',%d,'%s',1,'s','','',1,1,1,0,1,%d)", 100+i, id, far))
		}
		own.exec(t, "INSERT INTO "+prefix+"claim VALUES "+strings.Join(rows, ","))
		var got []string
		for x, err := range e.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, x.ID)
		}
		line, err := e.Line(t.Context(), "long")
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, x := range line {
			shown = append(shown, x.ID)
		}
		if !slices.Equal(got, want) || !slices.Equal(shown, want) {
			t.Errorf("of %d in line List shows %d and Line %d, or not in order", len(want), len(got), len(shown))
		}
	})
}
