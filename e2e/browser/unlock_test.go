package browser

import (
	"strings"
	"testing"
)

const exitLost = 79 // of pawl run, when its lock was lost

// typeUnlock types the name into the form of a name's page.
func (b *tab) typeUnlock(name string) {
	b.t.Helper()
	b.await("the form", `document.querySelector("form#unlock input[name=token]").value`)
	b.tabTo("form#unlock input[name=name]")
	b.press(name)
}

// submit presses Enter, and returns what the page that follows says.
func (b *tab) submit() string {
	b.t.Helper()
	b.press(keyEnter)
	b.await("a result", `document.querySelector("#result[role=status]")?.innerText.trim()`)
	return eval[string](b, `document.querySelector("#result").innerText`)
}

func TestForceUnlockBreaksTheHoldThatWasShown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		holder := s.run("deploy", "stuck")
		next, _ := s.runQueued("deploy", "next")
		v := s.serveUnlock()
		b := newTab(t)
		b.open(v.name("deploy"))
		b.typeUnlock("deploy")
		token := eval[string](b, `document.querySelector("form#unlock input[name=token]").value`)
		result := b.submit()
		next.awaitHeld()
		<-holder.ended
		if code := holder.cmd.ProcessState.ExitCode(); code != exitLost {
			t.Errorf("pawl run exits with %d after its lock was broken, not with %d; the page says %q", code, exitLost, result)
		}
		if !strings.Contains(result, "deploy") {
			t.Errorf("the result does not name the lock: %q", result)
		}
		audit := v.stderr.String()
		if !strings.Contains(audit, "deploy") || !strings.Contains(audit, token) {
			t.Errorf("no line on standard error names lock and token %s: %s", token, audit)
		}
	})
}

// The page shows the new holder as soon as there is one. What the form sends is still
// the token that was shown when the user began to type: otherwise Enter, pressed a
// moment too late, would break the hold of another.
func TestForceUnlockRefusesALockThatHasChangedHands(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		holder := s.run("deploy", "stuck")
		next, claim := s.runQueued("deploy", "next")
		v := s.serveUnlock()
		b := newTab(t)
		b.open(v.name("deploy"))
		b.typeUnlock("deploy")
		holder.end()
		next.awaitHeld()
		b.await("the next holder", `document.querySelector(".holder")?.dataset.id === `+quote(claim))
		b.faults.expect("409") // the response's status, which the console reports
		result := b.submit()
		if !strings.Contains(result, "changed hands") {
			t.Errorf("the result of a stale token is %q", result)
		}
		if line := s.line("deploy"); len(line) != 1 || line[0].ID != claim || !line[0].Held {
			t.Errorf("the holder after a stale token is %v", line)
		}
		if code := next.end(); code == exitLost {
			t.Error("the next holder lost its lock")
		}
	})
}

func TestForceUnlockNeedsTheNameAndTheFlag(t *testing.T) {
	t.Parallel()
	s := aStore(t)
	s.hold("ana@ci-7 pid 4121 deploy.sh", "deploy")
	v := s.serve()
	b := newTab(t)
	b.open(v.name("deploy"))
	b.await("the line", `document.querySelector(".holder[data-id]")`)
	if eval[bool](b, `!!document.querySelector("form#unlock, input[name=token]")`) {
		t.Error("a read-only page has a form to unlock")
	}

	allowed := s.serveUnlock()
	b = newTab(t)
	b.open(allowed.name("deploy"))
	b.typeUnlock("deplox")
	b.faults.expect("status of 4")
	result := b.submit()
	if line := s.line("deploy"); len(line) != 1 {
		t.Errorf("a wrong name unlocks; the page says %q", result)
	}
	if result == "" {
		t.Error("a wrong name is refused without a word")
	}
}
