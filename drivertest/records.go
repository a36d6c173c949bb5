package drivertest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// recordCases store small versioned values, on engines that are a driver.Records.
var recordCases = []lawCase{
	{name: "a record is written only over the version that was read", law: 10, run: recordVersions,
		why: "Two read the same version and write: one gets ErrConflict with the version that stands, and nothing of its value."},
	{name: "a version is never used again", law: 14, run: recordNeverReused,
		why: "A record is deleted and made again between another's Load and Store: with the old version back, that Store would overwrite the new one."},
	{name: "a record ends when it was to be kept no longer", law: 8, run: recordKeep,
		why: "keep is a duration by the store's clock; a new Store sets it anew, and 0 keeps for ever."},
	{name: "a record takes 64 KiB and no more", law: 12, run: recordSize,
		why: "A larger value is refused whole, and an empty one is a value."},
	{name: "one of many concurrent writers wins each version", law: 10, run: recordRace,
		why: "Eight count in one record: no step is lost."},
	{name: "records and claims of one name do not meet", law: 13, run: recordBesideClaim,
		why: "What an engine keeps for a record cannot be taken for a hold, nor the other way round."},
}

func (f *fixture) records() (driver.Records, bool) {
	r, ok := f.engine.(driver.Records)
	if !ok {
		f.Log("the engine keeps no driver.Records")
	}
	return r, ok
}

// mustStore stores value or fails the case.
func (f *fixture) mustStore(r driver.Records, value []byte, ifVersion uint64, keep time.Duration) uint64 {
	f.Helper()
	version, err := r.Store(f.ctx, f.name, value, ifVersion, keep)
	if err != nil {
		f.Fatalf("Store over version %d: %v", ifVersion, err)
	}
	if (version == 0) != (value == nil) {
		f.Fatalf("Store over version %d returns version %d", ifVersion, version)
	}
	return version
}

// expectRecord compares the stored record with want; nil means no record.
func (f *fixture) expectRecord(r driver.Records, want []byte, version uint64) {
	f.Helper()
	got, v, err := r.Load(f.ctx, f.name)
	if err != nil {
		f.Fatalf("Load: %v", err)
	}
	if v != version || !bytes.Equal(got, want) {
		f.Fatalf("Load: version %d and %d bytes, not version %d and %d bytes", v, len(got), version, len(want))
	}
}

func (f *fixture) expectConflict(r driver.Records, ifVersion, stands uint64) {
	f.Helper()
	for _, value := range [][]byte{[]byte("loser"), nil} {
		v, err := r.Store(f.ctx, f.name, value, ifVersion, 0)
		if !errors.Is(err, driver.ErrConflict) || v != stands {
			f.Errorf("Store over version %d where %d stands: version %d, %v", ifVersion, stands, v, err)
		}
	}
}

func recordVersions(f *fixture) {
	r, ok := f.records()
	if !ok {
		return
	}
	f.expectRecord(r, nil, 0)
	one := f.mustStore(r, []byte("one"), 0, 0)
	f.expectRecord(r, []byte("one"), one)
	f.expectConflict(r, 0, one)
	f.expectConflict(r, one+1, one)
	two := f.mustStore(r, []byte("two\x00\xff"), one, 0)
	if two <= one {
		f.Errorf("version %d follows %d", two, one)
	}
	f.expectConflict(r, one, two)
	f.expectRecord(r, []byte("two\x00\xff"), two)
	f.mustStore(r, nil, two, 0)
	f.expectRecord(r, nil, 0)
}

func recordNeverReused(f *fixture) {
	r, ok := f.records()
	if !ok {
		return
	}
	seen := map[uint64]bool{}
	version := uint64(0)
	for i := range 12 {
		version = f.mustStore(r, fmt.Append(nil, i), version, 0)
		if seen[version] {
			f.Fatalf("version %d was used before", version)
		}
		seen[version] = true
		if i%3 == 2 {
			version = f.mustStore(r, nil, version, 0)
		}
	}
	first := f.mustStore(r, []byte("brief"), version, f.ttl/4)
	f.expectEnded(r, f.ttl/4)
	second := f.mustStore(r, []byte("again"), 0, 0)
	if seen[first] || seen[second] || first == second {
		f.Errorf("versions %d and %d, around an end by time, were used before", first, second)
	}
	f.expectConflict(r, first, second)
	f.mustStore(r, nil, second, 0)
}

// expectEnded waits until the record has ended.
func (f *fixture) expectEnded(r driver.Records, keep time.Duration) {
	f.Helper()
	for start := time.Now(); ; time.Sleep(f.ttl / 20) {
		_, v, err := r.Load(f.ctx, f.name)
		if err != nil {
			f.Fatalf("Load: %v", err)
		}
		if v == 0 {
			return
		}
		if time.Since(start) > 3*keep+soon {
			f.Fatalf("a record kept for %v is still there after %v", keep, time.Since(start))
		}
	}
}

func recordKeep(f *fixture) {
	r, ok := f.records()
	if !ok {
		return
	}
	keep := f.ttl
	sent := time.Now()
	version := f.mustStore(r, []byte("short"), 0, keep)
	_, v, err := r.Load(f.ctx, f.name)
	if err != nil {
		f.Fatalf("Load: %v", err)
	}
	if v != version && time.Since(sent) < keep {
		f.Errorf("a record to be kept for %v is gone after %v", keep, time.Since(sent))
	}
	f.expectEnded(r, keep)
	if early := keep - time.Since(sent); early > 0 {
		f.Errorf("a record to be kept for %v ended %v too early", keep, early)
	}
	var next uint64
	for range 5 { // retried if the record ended because the machine stalled
		version = f.mustStore(r, []byte("short"), 0, keep)
		if next, err = r.Store(f.ctx, f.name, []byte("for ever"), version, 0); !errors.Is(err, driver.ErrConflict) || next != 0 {
			break
		}
	}
	if err != nil {
		f.Fatalf("Store: %v", err)
	}
	time.Sleep(keep + keep/2)
	f.expectRecord(r, []byte("for ever"), next)
	f.mustStore(r, nil, next, 0)
}

func recordSize(f *fixture) {
	r, ok := f.records()
	if !ok {
		return
	}
	full := []byte(strings.Repeat("\x00ü\xff", driver.MaxRecord/4))
	version := f.mustStore(r, full, 0, 0)
	f.expectRecord(r, full, version)
	if _, err := r.Store(f.ctx, f.name, make([]byte, driver.MaxRecord+1), version, 0); !errors.Is(err, driver.ErrTooLarge) {
		f.Errorf("Store of more than MaxRecord bytes: %v, not ErrTooLarge", err)
	}
	f.expectRecord(r, full, version)
	version = f.mustStore(r, []byte{}, version, 0)
	f.expectRecord(r, nil, version)
	f.mustStore(r, nil, version, 0)
}

func recordRace(f *fixture) {
	r, ok := f.records()
	if !ok {
		return
	}
	const writers, steps = 8, 5
	var tasks []*backgroundCall
	for range writers {
		tasks = append(tasks, f.inBackground(func() error {
			for done := 0; done < steps; {
				value, version, err := r.Load(f.ctx, f.name)
				if err != nil {
					return err
				}
				_, err = r.Store(f.ctx, f.name, append(value, 'x'), version, 0)
				switch {
				case err == nil:
					done++
				case !errors.Is(err, driver.ErrConflict):
					return err
				}
			}
			return nil
		}))
	}
	for _, call := range tasks {
		call.wait("a writer")
	}
	value, version, err := r.Load(f.ctx, f.name)
	if err != nil || len(value) != writers*steps {
		f.Fatalf("%d writers wrote %d times each, %d are left (%v)", writers, steps, len(value), err)
	}
	f.mustStore(r, nil, version, 0)
}

func recordBesideClaim(f *fixture) {
	r, ok := f.records()
	if !ok {
		return
	}
	a, b := f.open(), f.open()
	version := f.mustStore(r, []byte("value"), 0, 0)
	c := f.claim()
	a.mustHold(c)
	b.mustNotHold(f.claim())
	f.expectRecord(r, []byte("value"), version)
	f.expectLine("a record of the same name is there", c)
	a.mustLeave(c)
	f.expectRecord(r, []byte("value"), version)
	f.mustStore(r, nil, version, 0)
	f.expectLine("the record was deleted")
}
