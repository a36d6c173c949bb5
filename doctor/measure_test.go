package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestARoundTripIsJudgedByItsMedian(t *testing.T) {
	for _, test := range []struct {
		trips []time.Duration // by call; the last one repeats
		want  Level
		found string
	}{
		{[]time.Duration{time.Millisecond}, OK, "1ms, the median of 7"},
		{[]time.Duration{time.Minute, time.Minute, time.Minute, time.Millisecond}, OK, "1ms"},
		{[]time.Duration{slowTrip + time.Millisecond}, Warning, "101ms"},
		{[]time.Duration{brokenTrip + time.Second}, Broken, "1.8s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			f := RoundTrip(t.Context(), "mend", func(context.Context) error {
				time.Sleep(test.trips[min(calls, len(test.trips)-1)])
				calls++
				return nil
			})
			if f.Level != test.want || !strings.Contains(f.Found, test.found) || (f.Level != OK) != (f.Mend == "mend" && f.Meaning != "") {
				t.Errorf("%v: %+v", test.trips, f)
			}
		})
	}
	f := RoundTrip(t.Context(), "mend", func(context.Context) error { return errors.New("cut") })
	if f.Level != Broken || f.Found != "no answer: cut" {
		t.Errorf("%+v", f)
	}
}

func TestAClockIsJudgedByWhatTheRoundTripCannotExplain(t *testing.T) {
	for _, test := range []struct {
		off, trip time.Duration
		want      Level
		found     string
	}{
		{0, time.Millisecond, OK, "0s from ours, within 500µs"},
		{900 * time.Millisecond, time.Millisecond, OK, "900ms from ours"},
		{2 * time.Second, time.Millisecond, Warning, "2s ahead of ours"},
		{-3 * time.Minute, time.Millisecond, Warning, "3m0s behind ours"},
		{2 * time.Second, 3 * time.Second, OK, "2s from ours, within 1.5s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := Clock(t.Context(), "meaning", "mend", func(context.Context) (time.Time, error) {
				time.Sleep(test.trip / 2)
				theirs := time.Now().Add(test.off)
				time.Sleep(test.trip / 2)
				return theirs, nil
			})
			if f.Level != test.want || !strings.Contains(f.Found, test.found) || (f.Level != OK) != (f.Mend == "mend") {
				t.Errorf("%+v: %+v", test, f)
			}
		})
	}
	f := Clock(t.Context(), "meaning", "mend", func(context.Context) (time.Time, error) { return time.Time{}, errors.New("denied") })
	if f.Level != Warning || f.Found != "cannot read the store's clock: denied" {
		t.Errorf("%+v", f)
	}
}

func TestTheClockIsReadWhereTheTripWasShortest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		f := Clock(t.Context(), "", "", func(context.Context) (time.Time, error) {
			calls++
			theirs := time.Now()
			if calls != 4 {
				time.Sleep(10 * time.Second) // after reading: taken alone, such a reading is 5 s behind
			}
			return theirs, nil
		})
		if f.Found != "0s from ours, within 0s" {
			t.Errorf("%+v", f)
		}
	})
}
