//go:build linux

package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"

	"github.com/pawl-go/pawl/internal/testserver"
)

// hiddenText is what an attacker with write access to a store may put there: escape
// sequences, also the eight-bit ones, characters that reverse the text direction,
// line separators, characters without width, and invalid UTF-8.
const (
	hiddenWord = "\x1b]0;owned\x07\x1b[2J\x08\x7f\u0085\u009b31m\u202a\u202e\u2066\u2069\u200e\u200f\u061c\u2028\u2029\u200b\u00ad\ufeff\U000e0041\ufe0f\u3164\xff"
	hiddenText = hiddenWord + "\r\npawl: released \x00."
)

// storeHiddenCharacters writes an attacker's claims into the store: as holder and
// in line of a lock, of a lock with such a name, and of an election.
func (env *testEnv) storeHiddenCharacters() {
	env.t.Helper()
	env.hold("decoy") // claims that name a live process do not expire
	db, err := sqlite3.Open("file:" + env.path("locks.db"))
	if err != nil {
		env.t.Fatal(err)
	}
	defer db.Close()
	text := func(v string) string { return "CAST(x'" + hex.EncodeToString([]byte(v)) + "' AS TEXT)" }
	note := "eve" + hiddenWord + "@host" + hiddenWord + " pid 7 cmd" + hiddenWord + " (why" + hiddenText + ")"
	head := func(name, id, note string) string {
		return fmt.Sprintf(`INSERT INTO pawl_head SELECT %s, 4096, %s, 1, 4096, %s, x_live, %s, 1, 1, 1, x_since, x_until + 3600000000, 0, 1, 0
			FROM pawl_head WHERE name = 'decoy';`, text(name), text(id), text(hiddenText), text(note))
	}
	claim := func(name, id, note string) string {
		return fmt.Sprintf(`INSERT INTO pawl_claim SELECT %s, 4097, %s, 1, %s, x_live, %s, 1, 1, 1, 0, x_since, x_until + 3600000000
			FROM pawl_head WHERE name = 'decoy';`, text(name), text(id), text(hiddenText), text(note))
	}
	for _, statement := range []string{
		"PRAGMA busy_timeout = 10000",
		head("x", "id"+hiddenText, note), claim("x", "id2"+hiddenText, "words"+hiddenText),
		head("y", "id"+hiddenText, "words"+hiddenText), claim("y", "id2"+hiddenText, note),
		head("z"+hiddenText, "id"+hiddenText, note), claim("z"+hiddenText, "id2"+hiddenText, note),
		head(".pawl/election/job", "id"+hiddenText, "value"+hiddenText), claim(".pawl/election/job", "id2"+hiddenText, "value2"+hiddenText),
		head(".pawl/election/j"+hiddenText, "id"+hiddenText, "value"+hiddenText),
	} {
		if err := db.Exec(statement); err != nil {
			env.t.Fatalf("%v: %s", err, statement)
		}
	}
}

// checkEscaped fails if the text contains anything that a terminal would obey or
// not show.
func checkEscaped(t *testing.T, place, text string) {
	t.Helper()
	text = strings.ReplaceAll(text, "\r\n", "\n") // a terminal prints \r\n
	text = strings.ReplaceAll(text, "\r\x1b[K", "")
	if !utf8.ValidString(text) {
		t.Errorf("%s prints bytes that are no text: %q", place, text)
	}
	for _, r := range text {
		if r != '\n' && (!unicode.IsPrint(r) || strings.ContainsRune("\ufe0f\u3164", r)) {
			t.Errorf("%s prints %U: %q", place, r, text)
			return
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "pawl: released") {
			t.Errorf("%s prints a line of the attacker's: %q", place, text)
		}
	}
}

func TestNothingFromAStoreReachesATerminalUnescaped(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.storeHiddenCharacters()
	for _, args := range [][]string{
		{"ls"}, {"ls", "--json"}, {"inspect", "x"}, {"inspect", "y"}, {"inspect", "--json", "x"}, {"inspect", "--json", "y"},
		{"inspect", "job"}, {"inspect", ".pawl/election/job"}, {"inspect", "--json", ".pawl/election/job"}, {"elect", "job"},
		{"run", "-n", "x", "--", "true"}, {"run", "-n", "y", "--", "true"}, {"run", "-w", "700ms", "--events", "events", "x", "--", "true"}, {"run", "-w", "700ms", "y", "--", "true"},
		{"elect", "-n", "job", "me", "--", "true"}, {"elect", "-w", "700ms", "job", "me", "--", "true"},
		{"force-unlock", "--token", "1", "x"}, {"force-unlock", "x"}, {"force-unlock", "job"},
		{"__complete", "inspect", ""}, {"__complete", "elect", ""}, {"__complete", "force-unlock", ""},
	} {
		p := env.run("pawl", args...)
		place := "pawl " + strings.Join(args, " ")
		if args[0] == "__complete" {
			p.out = strings.ReplaceAll(p.out, "\t", "") // separates a candidate from its description
		}
		checkEscaped(t, place+" | cat", p.out)
		checkEscaped(t, place+" 2>&1 | cat", p.err)
		if args[0] == "__complete" || args[0] == "force-unlock" && len(args) == 2 {
			continue // read by a shell only, or asks for input
		}
		x := env.terminal(200, "pawl", args...)
		<-x.done
		checkEscaped(t, place, x.shown())
		if !strings.Contains(p.out+p.err, `\x1b`) && !strings.Contains(p.out, `\u001b`) && args[0] != "elect" && p.err == "" {
			t.Errorf("%s shows nothing of it: %q %q", place, p.out, p.err)
		}
	}
	checkEscaped(t, "--events", env.read("events"))

	watch := env.terminal(200, "pawl", "watch")
	watch.shows(`\njob|  job|evil|value`)
	watch.types(ctrlC)
	<-watch.done
	checkEscaped(t, "watch", watch.shown())
	lines := env.terminal(200, "pawl", "watch", "--json")
	lines.shows(`election/job`)
	lines.types(ctrlC)
	<-lines.done
	checkEscaped(t, "watch --json", strings.ReplaceAll(lines.shown(), "^C", ""))

	asked := env.terminal(200, "pawl", "force-unlock", "y")
	asked.shows(`Type the lock's name to break it: `)
	asked.types("y\n")
	asked.ends(0)
	checkEscaped(t, "force-unlock on a terminal", asked.shown())
	if !strings.Contains(asked.shown(), `audit: `) || !strings.Contains(asked.shown(), `\x1b[2J`) {
		t.Errorf("force-unlock on a terminal: %q", asked.shown())
	}
	p := env.run("pawl", "force-unlock", "--token", strconv.Itoa(4096<<8), "x")
	checkEscaped(t, "force-unlock --token", p.err)
	if p.code != 0 || !strings.Contains(p.err, `audit: `) {
		t.Errorf("force-unlock --token: %+v", p)
	}
}

// For a JSON parser the escaped value is the same.
func TestJSONIsTheSameValueWithAllEscaped(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.storeHiddenCharacters()
	want := strings.ToValidUTF8("id"+hiddenText, "\ufffd")
	for _, args := range [][]string{{"ls", "--json", "x"}, {"inspect", "--json", "x"}} {
		p := env.run("pawl", args...)
		var all []object
		if err := json.Unmarshal([]byte(p.out), &all); err != nil || len(all) != 2 {
			t.Fatalf("%v: %v: %s", args, err, p.out)
		}
		if all[0]["id"] != want || all[1]["reason"] != strings.Replace(want, "id", "words", 1) {
			t.Errorf("%v: %v", args, all)
		}
		if i := strings.IndexFunc(p.out, func(r rune) bool { return r > unicode.MaxASCII }); i >= 0 && !strings.HasPrefix(p.out[i:], "\ufffd") {
			t.Errorf("%v prints %q", args, p.out[i:])
		}
	}
	if p := env.run("pawl", "run", "--reason", "größer 船", "fine", "--", "pawl", "ls", "--json", "fine"); !strings.Contains(p.out, `"größer 船"`) {
		t.Errorf("what can be read is escaped too: %s", p.out)
	}
}

// On Redis any program can write a key that looks like a lock.
func TestNamesOfOtherProgramsOnRedisAreEscaped(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	conn, err := net.Dial("tcp", redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, key := range []string{"pawl:x", "pawl:z" + hiddenText} {
		fmt.Fprintf(conn, "*5\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$2\r\nPX\r\n$7\r\n3600000\r\n", len(key), key, len(hiddenText), hiddenText)
		if _, err := io.ReadFull(conn, make([]byte, len("+OK\r\n"))); err != nil {
			t.Fatal(err)
		}
	}
	env := newTestEnv(t).with("PAWL_STORE=redis://" + redis.Addr())
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"inspect", "x"}, {"inspect", "--json", "x"}, {"run", "-n", "x", "--", "true"}, {"force-unlock", "--token", "0", "x"}} {
		p := env.run("pawl", args...)
		checkEscaped(t, strings.Join(args, " "), p.out)
		checkEscaped(t, strings.Join(args, " "), p.err)
		if args[0] == "ls" && !regexp.MustCompile(`z\\(x|u00)1b]0;owned`).MatchString(p.out) {
			t.Errorf("%v does not show what is there: %q", args, p.out)
		}
	}
}

// Error messages of a server are untrusted too.
func TestErrorsOfAStoreAreEscaped(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	t.Cleanup(func() { ln.Close(); served.Wait() })
	served.Go(func() { // ends with the listener
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			served.Go(func() { // ends with the client
				defer conn.Close()
				for buf := make([]byte, 4096); ; {
					n, err := conn.Read(buf)
					if err != nil {
						return
					}
					for range strings.Count(string(buf[:n]), "*") { // each command begins with one
						_, _ = io.WriteString(conn, "-ERR "+hiddenWord+"\r\n")
					}
				}
			})
		}
	})
	env := newTestEnv(t).with("PAWL_STORE=redis://"+ln.Addr().String(), contactEnv+"=2s")
	for _, args := range [][]string{{"ls"}, {"inspect", "x"}, {"run", "-n", "--events", env.path("events"), "x", "--", "true"}, {"elect", "x"}, {"force-unlock", "x"}} {
		p := env.run("pawl", args...)
		checkEscaped(t, strings.Join(args, " "), p.out)
		checkEscaped(t, strings.Join(args, " "), p.err)
		if p.code == 0 || !strings.Contains(p.err, `\x1b[2J`) {
			t.Errorf("%v does not show the answer: %+v", args, p)
		}
	}
	checkEscaped(t, "--events", env.read("events"))
}
