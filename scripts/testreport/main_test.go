package main

import (
	"strings"
	"testing"
	"time"
)

// run feeds a report with the events of one go test -json, in a short form: "action
// test output".
func run(t *testing.T, ci bool, events ...string) (good bool, printed string) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out)
	for _, e := range events {
		f := strings.SplitN(e, "|", 3)
		for len(f) < 3 {
			f = append(f, "")
		}
		ev := event{Action: f[0], Package: "p", Test: f[1], Output: f[2]}
		if f[2] != "" {
			ev.Output += "\n"
		}
		r.handle(ev)
	}
	r.endUnfinished()
	r.rerun(func(pkg, test string) bool { return strings.Contains(test, "Shaky") })
	good = r.printSummary(ci, time.Second)
	return good, out.String()
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

func TestAGoodRunIsShort(t *testing.T) {
	good, printed := run(t, true,
		"run|TestA", "output|TestA|=== RUN   TestA", "output|TestA|    a_test.go:3: noise", "pass|TestA",
		"output||PASS", "output||ok  \tp\t0.1s", "pass|")
	if !good {
		t.Error("not good")
	}
	expect(t, printed, "ok  \tp\t0.1s\ntests ok: 1 passed, 0 failed, 0 unstable, 0 skipped; 1s\n")
}

func TestOnlyTheOutputOfWhatFailedIsShown(t *testing.T) {
	good, printed := run(t, false,
		"run|TestA", "output|TestA|    a_test.go:3: noise", "pass|TestA",
		"run|TestB", "output|TestB|    a_test.go:9: broken", "fail|TestB",
		"output||FAIL", "output||FAIL\tp\t0.1s", "fail|")
	if good {
		t.Error("good")
	}
	expect(t, printed, "    a_test.go:9: broken\nFAIL\tp\t0.1s\nrun again, alone, 1 of 2: p TestB: FAILED\nfailed: p TestB\n\ta_test.go:9: broken\ntests FAILED: 1 passed, 1 failed, 0 unstable, 0 skipped; 1s\n")
}

func TestATestThatNeverEndedIsShown(t *testing.T) {
	good, printed := run(t, false, "run|TestA", "output|TestA|panic: test timed out", "output||FAIL\tp\t9s", "fail|")
	if good {
		t.Error("good")
	}
	expect(t, printed, "panic: test timed out\nFAIL\tp\t9s\nbroken: p\ntests FAILED: 0 passed, 0 failed, 0 unstable, 0 skipped; 1s\n")
}

func TestARaceIsShownAlsoUnderATestThatPassed(t *testing.T) {
	_, printed := run(t, false,
		"run|TestA", "output|TestA|WARNING: DATA RACE", "pass|TestA",
		"run|TestB", "output|TestB|race detected", "fail|TestB", "fail|")
	expect(t, printed, "WARNING: DATA RACE\nrace detected\nnot run again: p TestB\nfailed: p TestB\ntests FAILED: 1 passed, 1 failed, 0 unstable, 0 skipped; 1s\n")
}

func TestATimeoutIsShownAlsoUnderATestThatPassed(t *testing.T) {
	_, printed := run(t, true,
		"run|TestA", "run|TestB", "output|TestB|begun", "pass|TestA",
		"output|TestA|panic: test timed out after 10m0s", "output|TestA|goroutine 1 [select]:", "fail|")
	expect(t, printed, "begun\npanic: test timed out after 10m0s\ngoroutine 1 [select]:\nbroken: p\ntests FAILED: 1 passed, 0 failed, 0 unstable, 0 skipped; 1s\n")
}

func TestAPackageThatFailsWithoutAFailedTestShowsAll(t *testing.T) {
	_, printed := run(t, false, "run|TestA", "output|TestA|goroutine left", "pass|TestA", "fail|")
	expect(t, printed, "goroutine left\nbroken: p\ntests FAILED: 1 passed, 0 failed, 0 unstable, 0 skipped; 1s\n")
}

func TestASkipFailsInCIAlone(t *testing.T) {
	events := []string{
		"run|TestA", "output|TestA|    a_test.go:3: before", "output|TestA|    a_test.go:4: no server here:",
		"output|TestA|        none found", "output|TestA|--- SKIP: TestA (0.00s)", "skip|TestA", "pass|",
	}
	const note = "skipped: p TestA: no server here: none found\n"
	good, printed := run(t, false, events...)
	if !good {
		t.Error("not good outside CI")
	}
	expect(t, printed, note+"tests ok: 0 passed, 0 failed, 0 unstable, 1 skipped; 1s\n")

	good, printed = run(t, true, events...)
	if good {
		t.Error("good in CI")
	}
	expect(t, printed, note+"CI=true, and 1 of these may not skip (only \"optional server:\" may)\ntests FAILED: 0 passed, 0 failed, 0 unstable, 1 skipped; 1s\n")
}

func TestAnOptionalServerMaySkipInCIAndIsShown(t *testing.T) {
	good, printed := run(t, true, "run|TestA", "output|TestA|    a_test.go:4: optional server: valkey 9 was not to be had", "skip|TestA", "pass|")
	if !good {
		t.Error("not good")
	}
	expect(t, printed, "skipped: p TestA: optional server: valkey 9 was not to be had\ntests ok: 0 passed, 0 failed, 0 unstable, 1 skipped; 1s\n")
}

func TestAPackageWithoutTestsIsNoSkip(t *testing.T) {
	good, _ := run(t, true, "output||?   \tp\t[no test files]", "skip|")
	if !good {
		t.Error("not good")
	}
}

func TestACutOffRunIsNoSuccess(t *testing.T) {
	good, printed := run(t, false, "run|TestA", "output|TestA|half")
	if good {
		t.Error("good")
	}
	expect(t, printed, "p did not end\nhalf\nbroken: p\ntests FAILED: 0 passed, 0 failed, 0 unstable, 0 skipped; 1s\n")
}

func TestWhatIsNoEventIsShownAsItCame(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	in := "go: something odd\n" +
		`{"Action":"build-output","ImportPath":"p","Output":"p.go:1: no\n"}` + "\n" +
		`{"Action":"pass","Package":"p","Test":"TestA"}` + "\nlast"
	if err := r.read(strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	expect(t, out.String(), "go: something odd\np.go:1: no\nlast")
	if r.count["pass"] != 1 {
		t.Error("the event was not counted")
	}
}

func TestHowAFailureBeganIsSaidOnceMoreAtTheEnd(t *testing.T) {
	long := strings.Repeat("é", maxMessage)
	_, printed := run(t, false,
		"run|TestA", "run|TestA/sub", "output|TestA/sub|        a_test.go:3: lost "+long, "output|TestA/sub|            by a hair", "fail|TestA/sub",
		"output|TestA|    server.go:9: end of its log:", "output|TestA|        much of it", "fail|TestA", "fail|")
	_, end, _ := strings.Cut(printed, "much of it\n")
	expect(t, end, "run again, alone, 1 of 2: p TestA: FAILED\nfailed: p TestA/sub\n\ta_test.go:3: lost "+long[:maxMessage-len("a_test.go:3: lost ")]+
		"...\nfailed: p TestA\n\tserver.go:9: end of its log:\ntests FAILED: 0 passed, 1 failed, 0 unstable, 0 skipped; 1s\n")
}
