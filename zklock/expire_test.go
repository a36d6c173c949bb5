package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pawl-go/pawl/driver"
)

// unattended returns an engine that deletes expired records only when the test says so.
func unattended(t *testing.T, opts ...Option) *Engine {
	e := connect(t, []string{oneServer(t)}, append([]Option{WithPath(pathOf(t))}, opts...)...)
	e.cleaning = true
	return e
}

func store(t testing.TB, e *Engine, key string, version uint64, keep time.Duration) uint64 {
	t.Helper()
	version, err := e.Store(t.Context(), key, []byte("value of "+key), version, keep)
	if err != nil {
		t.Fatalf("Store: %v", err)
	}
	return version
}

func storeMany(t testing.TB, e *Engine, prefix string, n int, keep time.Duration) {
	t.Helper()
	err := forEach(t.Context(), n, func(ctx context.Context, i int) error {
		_, err := e.Store(ctx, fmt.Sprint(prefix, i), []byte("value"), 0, keep)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// after is the leader's time once this has passed, so that a test need not wait for it.
func after(t testing.TB, e *Engine, d time.Duration) int64 {
	t.Helper()
	millis, err := e.fetchTime(t.Context(), e.records)
	if err != nil {
		t.Fatal(err)
	}
	return millis + d.Milliseconds()
}

func clean(t testing.TB, e *Engine, millis int64) {
	t.Helper()
	if err := e.cleanEnds(t.Context(), millis); err != nil {
		t.Errorf("cleaning: %v", err)
	}
}

// stored counts the records whose keys begin with prefix, and all entries.
func stored(t testing.TB, e *Engine, prefix string) (records, entries int) {
	t.Helper()
	all, err := e.tree(t.Context(), e.records)
	if err != nil {
		t.Fatal(err)
	}
	for path := range all {
		switch {
		case path == e.records, path == e.ends, path == e.walked:
		case strings.HasPrefix(path, e.ends+"/"):
			if strings.Contains(base(path), "@") {
				entries++
			}
		case strings.HasPrefix(path, e.records+"/"+encode(prefix)) && strings.Count(path, "/") == strings.Count(e.records, "/")+1:
			records++
		}
	}
	return records, entries
}

func expectStored(t testing.TB, e *Engine, prefix string, records, entries int) {
	t.Helper()
	if r, n := stored(t, e, prefix); r != records || n != entries {
		t.Errorf("%d records %q and %d entries in all, not %d and %d", r, prefix, n, records, entries)
	}
}

// An older pawl looked at a thousand records a minute, whether they had ended or not.
func TestThousandsOfExpiredRecordsAreDeletedWithoutReadingARecord(t *testing.T) {
	t.Parallel()
	const expired, kept = 3000, 500
	var n counter
	e := unattended(t, WithDialer(n.dial))
	storeMany(t, e, "long/", kept, time.Hour)
	storeMany(t, e, "short/", expired, time.Second)
	expectStored(t, e, "short/", expired, expired+kept)
	over := after(t, e, time.Minute)
	n.take()
	clean(t, e, over)
	total, ops := n.take()
	if ops[opGetData] > 1 || total > expired/2 {
		t.Errorf("%d requests %v to delete %d records", total, ops, expired)
	}
	expectStored(t, e, "short/", 0, kept)
	expectStored(t, e, "long/", kept, kept)
}

func TestARecordWithAnEndCostsTwoRequestsAndConnectReadsNoNames(t *testing.T) {
	t.Parallel()
	var n counter
	e := unattended(t, WithDialer(n.dial))
	n.take()
	connect(t, []string{oneServer(t)}, WithPath(e.path), WithDialer(n.dial))
	if _, ops := n.take(); ops[opGetChildren]+ops[8] > 0 {
		t.Errorf("Connect: %v", ops)
	}
	version := store(t, e, "key", 0, time.Hour)
	n.take()
	for _, keep := range []time.Duration{time.Hour, 2 * time.Hour, 0} {
		version = store(t, e, "key", version, keep)
		n.take() // the first in a bucket creates it
		version = store(t, e, "key", version, keep)
		n.expect(t, fmt.Sprintf("Store for %v", keep), 3) // time, record, and the Multi
	}
	expectStored(t, e, "key", 1, 0)
}

// What its entry says is about the record as it was: a later one stays.
func TestARecordThatWasWrittenAgainOutlivesItsFirstEnd(t *testing.T) {
	t.Parallel()
	e := unattended(t)
	renewed := store(t, e, "renewed", store(t, e, "renewed", 0, time.Second), time.Hour)
	forever := store(t, e, "for ever", store(t, e, "for ever", 0, time.Second), 0)
	deleted := store(t, e, "deleted", 0, time.Second)
	if _, err := e.Store(t.Context(), "deleted", nil, deleted, 0); err != nil {
		t.Fatal(err)
	}
	anew := store(t, e, "deleted", 0, time.Hour)
	expectStored(t, e, "", 3, 2)
	clean(t, e, after(t, e, time.Minute))
	for key, want := range map[string]uint64{"renewed": renewed, "for ever": forever, "deleted": anew} {
		if _, v, err := e.Load(t.Context(), key); v != want || err != nil {
			t.Errorf("%s: version %d, %v, not %d", key, v, err, want)
		}
	}
	clean(t, e, after(t, e, 2*time.Hour))
	expectStored(t, e, "", 1, 0)
}

// oldStore writes a record as pawl did before there were entries.
func oldStore(t testing.TB, e *Engine, key string, keep time.Duration) {
	t.Helper()
	r, err := e.readRecord(t.Context(), e.records+"/"+encode(key), 0)
	if err != nil {
		t.Fatal(err)
	}
	ops := []any{}
	if r.stat == nil {
		r.incarnation, r.stat = newNonce(), &zk.Stat{}
		ops = append(ops, &zk.CreateRequest{Path: r.path, Acl: e.acl()}, &zk.CreateRequest{Path: r.path + "/" + r.incarnation, Acl: e.acl()})
	}
	ops = append(ops, &zk.SetDataRequest{Path: r.path, Data: r.encode([]byte("old"), keep), Version: r.stat.Version})
	if _, err := e.commit(t.Context(), ops, "", ""); err != nil {
		t.Fatal(err)
	}
}

func oldDelete(t testing.TB, e *Engine, key string) {
	t.Helper()
	r, err := e.readRecord(t.Context(), e.records+"/"+encode(key), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.commit(t.Context(), r.deletion(), "", ""); err != nil {
		t.Fatal(err)
	}
}

// An older pawl renews and deletes records and leaves their entries as they are, and its own
// records have none.
func TestRecordsOfAnOlderPawlAreFound(t *testing.T) {
	t.Parallel()
	e := unattended(t)
	for _, key := range []string{"renewed", "deleted", "replaced", "kept for ever"} {
		store(t, e, key, 0, time.Second)
	}
	oldStore(t, e, "renewed", time.Hour)
	oldStore(t, e, "kept for ever", 0)
	oldDelete(t, e, "deleted")
	oldDelete(t, e, "replaced")
	oldStore(t, e, "replaced", time.Hour)
	clean(t, e, after(t, e, time.Minute))
	expectStored(t, e, "", 3, 2)
	clean(t, e, after(t, e, 2*time.Hour))
	expectStored(t, e, "", 1, 0)

	walk := func(pause time.Duration) {
		if err := e.walk(t.Context(), after(t, e, pause), 2); err != nil {
			t.Fatal(err)
		}
	}
	walk(0) // creates the walk's node
	for i := range 5 {
		oldStore(t, e, fmt.Sprint("old/", i), time.Second)
	}
	store(t, e, "new", 0, 72*time.Hour)
	for _, left := range []int{7, 7, 5, 3, 2} { // two at a time: the nodes that are no records, those that stay, the others
		walk(walkPause / 2)
		walk(walkPause)
		expectStored(t, e, "", left, 1)
	}
	oldStore(t, e, "old/5", time.Second)
	walk(walkAgain / 2)
	expectStored(t, e, "", 3, 1)
	for range 3 {
		walk(walkAgain)
	}
	expectStored(t, e, "", 2, 1)
}

// Two cleaners that take the same period delete everything once, and nothing else.
func TestTwoCleanersAtOnceAreNotInEachOthersWay(t *testing.T) {
	t.Parallel()
	a := unattended(t)
	b := connect(t, []string{oneServer(t)}, WithPath(a.path))
	storeMany(t, a, "short/", 400, time.Second)
	storeMany(t, a, "long/", 100, time.Hour)
	over := after(t, a, time.Minute)
	periods, err := a.children(t.Context(), a.ends)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(periods)
	var both sync.WaitGroup
	for _, e := range []*Engine{a, b} {
		both.Go(func() {
			for _, period := range periods[:len(periods)-1] {
				if err := e.cleanPeriod(t.Context(), e.ends+"/"+period, over); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	expectStored(t, a, "short/", 0, 100)
	expectStored(t, a, "long/", 100, 100)
}

// While one process cleans, or just has, the others do not.
func TestOneProcessCleansAtATime(t *testing.T) {
	t.Parallel()
	a := unattended(t)
	var n counter
	b := connect(t, []string{oneServer(t)}, WithPath(a.path), WithDialer(n.dial))
	store(t, a, "short", 0, time.Second)
	over := after(t, a, time.Minute)
	clean(t, a, over)
	store(t, a, "short", 0, time.Second)
	clean(t, b, after(t, a, 0)) // a has just been through
	if err := a.set(t.Context(), a.ends, []byte(cleanBusy), -1); err != nil {
		t.Fatal(err)
	}
	clean(t, b, after(t, a, cleanTimeout*3/4)) // a is at it
	expectStored(t, a, "short", 1, 1)
	clean(t, b, after(t, a, cleanTimeout+time.Second)) // a has stopped
	expectStored(t, a, "short", 0, 0)
}

// A user who may not write entries, or not those of this period, can write records.
func TestARecordIsWrittenWhereItsEntryMayNotBe(t *testing.T) {
	t.Parallel()
	e := unattended(t)
	store(t, e, "first", 0, time.Second)
	if _, err := raw(t).SetACL(e.ends, zk.WorldACL(zk.PermRead), -1); err != nil {
		t.Fatal(err)
	}
	version := store(t, e, "other", 0, 24*time.Hour)
	version = store(t, e, "other", version, time.Hour)
	store(t, e, "other", version, 0)
	if err := e.cleanEnds(t.Context(), after(t, e, time.Minute)); err != nil && !errors.Is(err, driver.ErrDenied) {
		t.Errorf("cleaning: %v", err)
	}
	if records, _ := stored(t, e, "other"); records != 1 {
		t.Error("the record is gone")
	}
}

// The engine begins by itself, and ends it when it is closed.
func TestAnEngineDeletesExpiredRecordsByItself(t *testing.T) {
	t.Parallel()
	e := connect(t, []string{oneServer(t)}, WithPath(pathOf(t)))
	store(t, e, "short", 0, time.Millisecond)
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if records, entries := stored(t, e, ""); records+entries == 0 {
			return
		}
		if time.Since(begun) > 2*cleanInterval+2*shortestPeriod+patience {
			t.Fatal("the record is still there")
		}
	}
}
