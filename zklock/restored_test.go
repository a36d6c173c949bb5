package zklock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/testserver"
)

// A server refuses a client that has seen a later transaction than itself, and the client
// library never forgets the last one that it saw. After the data went back, under clients
// that live, everything must work again, not only sessions, which have new connections.
func TestAnEngineOutlivesDataThatWentBack(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(data, backup string) error{
		"begun empty": func(data, _ string) error { return os.RemoveAll(data) },
		"restored":    func(data, backup string) error { return errors.Join(os.RemoveAll(data), os.Rename(backup, data)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.ZooKeeper(t)
			e := connect(t, []string{server.Addr()}, WithDigest("ana", "word"), WithCreatorOnly())
			use := func() error {
				ctx := t.Context()
				_, line := e.Line(ctx, "job")
				var list error
				for _, list = range e.List(ctx, "") {
				}
				_, version, load := e.Load(ctx, "key")
				var store error
				if load == nil {
					_, store = e.Store(ctx, "key", []byte("value"), version, time.Hour)
				}
				_, watch := e.Watch(ctx, "job")
				return errors.Join(line, list, load, store, watch) // no session: its transactions would make up for those that are gone
			}
			if err := use(); err != nil {
				t.Fatal(err)
			}
			data := filepath.Join(server.Dir(), "data", "version-2")
			backup := data + ".old"
			server.Stop()
			if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
				t.Fatal(err)
			}
			server.Restart()
			for range 20 { // transactions that will be gone
				if err := persist(use); err != nil {
					t.Fatal(err)
				}
			}
			server.Stop()
			if err := replace(data, backup); err != nil {
				t.Fatal(err)
			}
			server.Restart()
			if err := persist(use); err != nil {
				t.Errorf("%v after its data went back: %v", patience, err)
			}
			s := open(t, e, 10*time.Second)
			hold(t, s, mutex())
		})
	}
}
