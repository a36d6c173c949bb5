//go:build !race

package sqllock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestNoRaceLeasesAreKeptOnALongWay(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) { keepMany(t, r, 1000, 10*time.Second, 50*time.Millisecond, 12*time.Second) })
}

// Names that were used once are swept as fast as they came: one beat is enough to have
// all of them swept, and other names are taken meanwhile.
func TestNoRaceNamesUsedOnceAreSwept(t *testing.T) {
	everywhere(t, func(t *testing.T, r *rig) {
		own, prefix := r.tables(t)
		const n = 20_000
		var rows []string
		for i := range n {
			rows = append(rows, fmt.Sprintf("('n%06d',%d,'',0,0,'','','',0,0,0,%d,0,0,0,0)", i, 1000+i, -far))
		}
		for part := range 20 {
			own.exec(t, "INSERT INTO "+prefix+"head VALUES "+strings.Join(rows[part*n/20:(part+1)*n/20], ","))
		}
		s, c := openSession(t, own.engine(t), time.Minute), mutex("kept")
		hold(t, s, c)
		beatAll(t, s, c)
		begun, taken := time.Now(), 0
		for left := int64(n); left > 0; taken++ {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%d of %d rows are left after %v", left, n, time.Since(begun))
			}
			use(t, s, mutex(fmt.Sprint("busy", taken%10)))
			time.Sleep(10 * time.Millisecond)
			left = own.number(t, "SELECT count(*) FROM "+prefix+"head WHERE name LIKE 'n%'")
		}
		t.Logf("%d rows were swept in %v, while %d names were taken", n, time.Since(begun), taken)
	})
}
