package drivertest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/driver"
)

// recordCases are about small versioned values, on engines that keep them.
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

func (s *stage) records() (driver.Records, bool) {
	r, ok := s.engine.(driver.Records)
	if !ok {
		s.Log("the engine keeps no driver.Records")
	}
	return r, ok
}

// put stores and fails the case on an error.
func (s *stage) put(r driver.Records, value []byte, ifVersion uint64, keep time.Duration) uint64 {
	s.Helper()
	version, err := r.Store(s.ctx, s.name, value, ifVersion, keep)
	if err != nil {
		s.Fatalf("Store over version %d: %v", ifVersion, err)
	}
	if (version == 0) != (value == nil) {
		s.Fatalf("Store over version %d returns version %d", ifVersion, version)
	}
	return version
}

// expectRecord compares what is loaded; a nil want is no record.
func (s *stage) expectRecord(r driver.Records, want []byte, version uint64) {
	s.Helper()
	got, v, err := r.Load(s.ctx, s.name)
	if err != nil {
		s.Fatalf("Load: %v", err)
	}
	if v != version || !bytes.Equal(got, want) {
		s.Fatalf("Load: version %d and %d bytes, not version %d and %d bytes", v, len(got), version, len(want))
	}
}

func (s *stage) expectConflict(r driver.Records, ifVersion, stands uint64) {
	s.Helper()
	for _, value := range [][]byte{[]byte("loser"), nil} {
		v, err := r.Store(s.ctx, s.name, value, ifVersion, 0)
		if !errors.Is(err, driver.ErrConflict) || v != stands {
			s.Errorf("Store over version %d where %d stands: version %d, %v", ifVersion, stands, v, err)
		}
	}
}

func recordVersions(s *stage) {
	r, ok := s.records()
	if !ok {
		return
	}
	s.expectRecord(r, nil, 0)
	one := s.put(r, []byte("one"), 0, 0)
	s.expectRecord(r, []byte("one"), one)
	s.expectConflict(r, 0, one)
	s.expectConflict(r, one+1, one)
	two := s.put(r, []byte("two\x00\xff"), one, 0)
	if two <= one {
		s.Errorf("version %d follows %d", two, one)
	}
	s.expectConflict(r, one, two)
	s.expectRecord(r, []byte("two\x00\xff"), two)
	s.put(r, nil, two, 0)
	s.expectRecord(r, nil, 0)
}

func recordNeverReused(s *stage) {
	r, ok := s.records()
	if !ok {
		return
	}
	seen := map[uint64]bool{}
	version := uint64(0)
	for i := range 12 {
		version = s.put(r, fmt.Append(nil, i), version, 0)
		if seen[version] {
			s.Fatalf("version %d was used before", version)
		}
		seen[version] = true
		if i%3 == 2 {
			version = s.put(r, nil, version, 0)
		}
	}
	first := s.put(r, []byte("brief"), version, s.ttl/4)
	s.expectEnded(r, s.ttl/4)
	second := s.put(r, []byte("again"), 0, 0)
	if seen[first] || seen[second] || first == second {
		s.Errorf("versions %d and %d, around an end by time, were used before", first, second)
	}
	s.expectConflict(r, first, second)
	s.put(r, nil, second, 0)
}

// expectEnded waits for the record's end.
func (s *stage) expectEnded(r driver.Records, keep time.Duration) {
	s.Helper()
	for start := time.Now(); ; time.Sleep(s.ttl / 20) {
		_, v, err := r.Load(s.ctx, s.name)
		if err != nil {
			s.Fatalf("Load: %v", err)
		}
		if v == 0 {
			return
		}
		if time.Since(start) > 3*keep+soon {
			s.Fatalf("a record kept for %v is still there after %v", keep, time.Since(start))
		}
	}
}

func recordKeep(s *stage) {
	r, ok := s.records()
	if !ok {
		return
	}
	keep := s.ttl
	sent := time.Now()
	version := s.put(r, []byte("short"), 0, keep)
	_, v, err := r.Load(s.ctx, s.name)
	if err != nil {
		s.Fatalf("Load: %v", err)
	}
	if v != version && time.Since(sent) < keep {
		s.Errorf("a record to be kept for %v is gone after %v", keep, time.Since(sent))
	}
	s.expectEnded(r, keep)
	if early := keep - time.Since(sent); early > 0 {
		s.Errorf("a record to be kept for %v ended %v too early", keep, early)
	}
	var next uint64
	for range 5 { // again if the machine stalled until the record had ended
		version = s.put(r, []byte("short"), 0, keep)
		if next, err = r.Store(s.ctx, s.name, []byte("for ever"), version, 0); !errors.Is(err, driver.ErrConflict) || next != 0 {
			break
		}
	}
	if err != nil {
		s.Fatalf("Store: %v", err)
	}
	time.Sleep(keep + keep/2)
	s.expectRecord(r, []byte("for ever"), next)
	s.put(r, nil, next, 0)
}

func recordSize(s *stage) {
	r, ok := s.records()
	if !ok {
		return
	}
	full := []byte(strings.Repeat("\x00ü\xff", driver.MaxRecord/4))
	version := s.put(r, full, 0, 0)
	s.expectRecord(r, full, version)
	if _, err := r.Store(s.ctx, s.name, make([]byte, driver.MaxRecord+1), version, 0); !errors.Is(err, driver.ErrTooLarge) {
		s.Errorf("Store of more than MaxRecord bytes: %v, not ErrTooLarge", err)
	}
	s.expectRecord(r, full, version)
	version = s.put(r, []byte{}, version, 0)
	s.expectRecord(r, nil, version)
	s.put(r, nil, version, 0)
}

func recordRace(s *stage) {
	r, ok := s.records()
	if !ok {
		return
	}
	const writers, steps = 8, 5
	var tasks []*task
	for range writers {
		tasks = append(tasks, s.start(func() error {
			for done := 0; done < steps; {
				value, version, err := r.Load(s.ctx, s.name)
				if err != nil {
					return err
				}
				_, err = r.Store(s.ctx, s.name, append(value, 'x'), version, 0)
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
	for _, k := range tasks {
		k.wait("a writer")
	}
	value, version, err := r.Load(s.ctx, s.name)
	if err != nil || len(value) != writers*steps {
		s.Fatalf("%d writers wrote %d times each, %d are left (%v)", writers, steps, len(value), err)
	}
	s.put(r, nil, version, 0)
}

func recordBesideClaim(s *stage) {
	r, ok := s.records()
	if !ok {
		return
	}
	a, b := s.join(), s.join()
	version := s.put(r, []byte("value"), 0, 0)
	c := s.claim()
	a.hold(c)
	b.denied(s.claim())
	s.expectRecord(r, []byte("value"), version)
	s.expectLine("a record of the same name is there", c)
	a.leave(c)
	s.expectRecord(r, []byte("value"), version)
	s.put(r, nil, version, 0)
	s.expectLine("the record was deleted")
}
