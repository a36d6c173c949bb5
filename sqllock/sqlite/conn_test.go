package sqlite

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// Thousands of a process may enter at the same time, one after the other on its connection: a
// beat that came after them would be late.
func TestABeatDoesNotWaitForAllCallsOfItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openFile(t, filepath.Join(t.TempDir(), "pawl.db")).store
		if err := store.writer.acquire(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		var order []string // in which they were served
		run := func(name string, beat bool) {
			served := func(sqlstore.Row) error {
				order = append(order, name)
				return nil
			}
			b := &sqlstore.Batch{Beat: beat, Steps: []sqlstore.Step{{Statement: &sqlstore.Statement{Name: "one", Text: "SELECT 1"}, Args: &sqlstore.Args{}, Row: served}}}
			go func() { // ends when it was served
				if err := store.Run(t.Context(), b); err != nil {
					t.Error(err)
				}
			}()
		}
		for range 100 {
			run("other", false)
		}
		synctest.Wait()
		run("beat", true)
		synctest.Wait()
		store.writer.release()
		synctest.Wait()
		if at := slices.Index(order, "beat"); at < 0 || at > 1 || len(order) != 101 {
			t.Errorf("the beat was served after %d of %d others", at, len(order)-1)
		}
	})
}
