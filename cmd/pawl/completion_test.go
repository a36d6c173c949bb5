//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/passwordleak"
)

// shells are the shells with completion: how each is started without the user's
// configuration, and how it loads the completions.
var shells = map[string]struct {
	args []string
	load string
}{
	"bash": {[]string{"--norc", "--noprofile", "-i"}, `source /usr/share/bash-completion/bash_completion; source <(pawl completion bash)`},
	"zsh":  {[]string{"-f", "-i"}, `autoload -Uz compinit; compinit -u -D; source <(pawl completion zsh)`},
	"fish": {[]string{"--no-config", "--private", "-i"}, `pawl completion fish | source`},
}

const (
	tab   = "\t"
	ctrlU = "\x15" // clears the line
)

// inShells runs a test on a terminal in each shell, with its completions loaded.
func inShells(t *testing.T, test func(t *testing.T, name string, env *testEnv, x *terminal)) {
	t.Parallel()
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(name); err != nil {
				t.Skip("there is no " + name + "; scripts/deps installs it")
			}
			env := newTestEnv(t).with("LANG=C.UTF-8")
			x := env.terminal(200, name, shell.args...)
			x.types(shell.load + `; echo rea""dy` + "\r")
			x.shows(`ready\r\n`)
			test(t, name, env, x)
		})
	}
}

// The test types into real shells on a terminal and then runs the completed line.
func TestRealShellsComplete(t *testing.T) {
	inShells(t, func(t *testing.T, name string, env *testEnv, x *terminal) {
		env.holdAll("deploy-nightly", "orders:42", "größer a b")
		env.fifo("over")
		env.start("leads", "pawl", "elect", "scheduler", "10.0.0.7:80", "--", "sh", "-c", `exec 3<>over; echo leads >leads; read end <&3`)
		for i, step := range []struct{ keys, want string }{
			{"pawl inspect depl" + tab, `deploy-nightly in sqlite:`},
			{"pawl inspect ord" + tab, `orders:42 in sqlite:`},
			{"pawl inspect gr" + tab, `größer a b in sqlite:`},
			{"pawl inspect --js" + tab + " depl" + tab, `"name": "deploy-nightly"`},
			{"pawl ls depl" + tab, `[\r\n]deploy-nightly +exclusive`},
			{"pawl ls sche" + tab, `[\r\n]scheduler +election +10\.0\.0\.7:80`},
			{"pawl elect sche" + tab, `[\r\n]10\.0\.0\.7:80\r`},
			{"pawl run -n depl" + tab + " true", `"deploy-nightly" is busy`},
			{"pawl run --on-lost ig" + tab + " free sh -c 'echo r''an'", `[\r\n]ran\r`},
			{"pawl run --also orders" + tab + " -n free true", `"free" is busy`},
			{"pawl force-unlock --tok" + tab + " 1 depl" + tab, `"deploy-nightly" has changed hands`},
			{"pawl bench --for 10ms --format gob" + tab + " alo" + tab, `BenchmarkLock/alone`},
			{"pawl -s sqli" + tab + env.path("locks.db") + " ls ord" + tab, `[\r\n]orders:42 +exclusive`},
		} {
			want := regexp.MustCompile(step.want)
			for try := 1; ; try++ {
				before, over := len(x.shown()), fmt.Sprintf("%d.%d", i, try)
				x.types(step.keys + "\r" + `echo ste""p` + over + "\r")
				x.shows(`step` + regexp.QuoteMeta(over) + `\r`)
				shown := x.shown()[before:]
				if want.MatchString(shown) {
					break
				}
				if try == 5 { // a store that takes longer than a second, as on a busy machine, completes nothing
					t.Fatalf("%q does not come to %s:\n%q", step.keys, step.want, shown)
				}
			}
		}
		if name == "bash" { // a second tab lists them
			before := len(x.shown())
			x.types("pawl run --on-lost " + tab + tab)
			if !eventually(func() bool {
				shown := x.shown()[before:]
				return strings.Contains(shown, "kill ") && strings.Contains(shown, "term ") && strings.Contains(shown, "ignore ")
			}) {
				t.Errorf("--on-lost: %q", x.shown()[before:])
			}
		}
		env.signalFIFO("over")
		env.release("deploy-nightly")
	})
}

// Shells insert the common prefix of all candidates unquoted, and bash evaluates
// the line when it completes again: a name that anybody may have stored must not be
// executed.
func TestNamesAreNotRunByTheShellThatCompletesThem(t *testing.T) {
	inShells(t, func(t *testing.T, _ string, env *testEnv, x *terminal) {
		env.holdAll("c", "$(echo >owned)1", "$(echo >owned)2", "`echo >owned`1", "`echo >owned`2", "a;echo >owned;1", "a;echo >owned;2", "(echo >owned)", "b\"$(echo >owned)\"1", "b\"$(echo >owned)\"2")
		for i, begun := range []string{"", "'$", "'`", "a", "b"} {
			x.types("pawl inspect " + begun + tab + tab + tab + ctrlU + `echo step""` + strconv.Itoa(i) + "\r")
			x.shows(`step` + strconv.Itoa(i) + `\r`)
		}
		if _, err := os.Stat(env.path("owned")); err == nil {
			t.Errorf("a lock's name was run: %q", x.shown())
		}
	})
}

// completions returns the candidates that a shell gets, without their descriptions.
func (env *testEnv) completions(args ...string) (words []string) {
	env.t.Helper()
	p := env.run("pawl", append([]string{"__complete"}, args...)...)
	if p.code != 0 {
		env.t.Fatalf("%v: %+v", args, p)
	}
	if text := strings.TrimSpace(p.err); strings.Contains(text, "\n") || !strings.HasPrefix(text, "Completion ended") {
		env.t.Errorf("%v says %q", args, p.err)
	}
	for line := range strings.Lines(p.out) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(word, ":") {
			words = append(words, word)
		}
	}
	return words
}

func TestCompletionMakesNoStoreAndSaysNothing(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	for i, store := range []string{"sqlite:tpyo.db", "local:", "redis://127.0.0.1:1", "nonsense", "redis://ana:" + passwordleak.Password + "@127.0.0.1:1"} {
		for n, verb := range []string{"run", "elect", "ls", "inspect", "watch", "force-unlock"} {
			if i > 0 && n%3 != i%3 {
				continue // every verb with the first store, two verbs with each of the others
			}
			if words := env.completions("-s", store, verb, ""); len(words) > 0 {
				t.Errorf("-s %s %s: %q", store, verb, words)
			}
		}
	}
	if files, _ := os.ReadDir(env.dir); len(files) != 0 {
		t.Errorf("made: %v", files)
	}
}

func TestCompletionLeavesOutWhatCouldNotBePasted(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.storeHiddenCharacters()
	env.start("dash", "pawl", "run", "--", "-dash", "sh", "-c", `echo dash >dash; sleep 60`)
	for verb, want := range map[string]string{"inspect": "decoy job x y", "run": "decoy x y", "elect": "job"} {
		if got := strings.Join(env.completions(verb, ""), " "); got != want {
			t.Errorf("%s: %q, not %q", verb, got, want)
		}
	}
	if got := strings.Join(env.completions("force-unlock", ".p"), " "); got != ".pawl/election/job" {
		t.Errorf("force-unlock .p: %q", got)
	}
	if got := env.completions("inspect", "x", ""); len(got) > 0 {
		t.Errorf("after the name: %q", got)
	}
}

// A store that accepts connections and never answers.
func TestCompletionDoesNotWaitForAStore(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() }) // after all connections have ended
	for _, scheme := range []string{"redis", "postgres", "etcd", "nats", "zk", "mysql"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			env := newTestEnv(t).with(contactEnv + "=1m")
			from := time.Now()
			if words := env.completions("-s", scheme+"://"+ln.Addr().String(), "inspect", ""); len(words) > 0 {
				t.Errorf("%q", words)
			}
			if took := time.Since(from); took > testTimeout { // without the limit it would take a minute
				t.Errorf("took %v", took)
			}
		})
	}
}
