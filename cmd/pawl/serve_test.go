//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/testserver"
)

// A served is a running pawl serve.
type served struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	client *http.Client
	ended  chan error

	mu   sync.Mutex // guards said
	said bytes.Buffer
}

// serve starts pawl serve on a free port and waits for its address.
func (env *testEnv) serve(args ...string) *served {
	env.t.Helper()
	return env.serveWith(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...))
}

func (env *testEnv) serveWith(args []string) *served {
	env.t.Helper()
	s := &served{t: env.t, client: &http.Client{Timeout: testTimeout}, ended: make(chan error, 1)}
	s.cmd = env.command("pawl", args...)
	out, err := s.cmd.StderrPipe()
	if err != nil {
		env.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		env.t.Fatal(err)
	}
	address := make(chan string, 1)
	read := make(chan struct{})
	go func() { // ends with the command
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.mu.Lock()
			s.said.WriteString(lines.Text() + "\n")
			s.mu.Unlock()
			if _, at, ok := strings.Cut(lines.Text(), "serving on "); ok {
				at, _, _ = strings.Cut(at, "/ ")
				address <- strings.TrimSuffix(at, "/")
			}
		}
	}()
	go func() { // ends with the command
		<-read
		s.ended <- s.cmd.Wait()
	}()
	env.t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	select {
	case s.url = <-address:
	case err := <-s.ended:
		env.t.Fatalf("serve ended: %v\n%s", err, s.stderr())
	case <-time.After(testTimeout):
		env.t.Fatalf("serve names no address: %s", s.stderr())
	}
	return s
}

func (s *served) stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// get returns status and body of a page.
func (s *served) get(path string) (int, string) {
	s.t.Helper()
	resp, err := s.client.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// until waits until a page contains a text, and returns the page.
func (s *served) until(path, text string) (page string) {
	s.t.Helper()
	if !eventually(func() bool {
		_, page = s.get(path)
		return strings.Contains(page, text)
	}) {
		s.t.Fatalf("%s never says %q:\n%s\n%s", path, text, page, s.stderr())
	}
	return page
}

func TestServeEndsOnSignalsAndEndsItsStreams(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		env := newTestEnv(t)
		env.hold("x")
		s := env.serve()
		if said := s.stderr(); strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "pawl: serving on http://127.0.0.1:") {
			t.Errorf("said %q", said)
		}
		resp, err := s.client.Get(s.url + "/events?view=/")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := s.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-s.ended:
			if err != nil {
				t.Errorf("%v: %v\n%s", sig, err, s.stderr())
			}
		case <-time.After(testTimeout):
			t.Fatalf("%v does not end it", sig)
		}
		t.Logf("ended after %v", time.Since(start))
		if took := time.Since(start); took > 10*time.Second { // 2 s, on a machine five times slower
			t.Errorf("%v: the end took %v", sig, took)
		}
		resp.Body.Close()
	}
}

func TestServeEndsWhileItsStoreDoesNotAnswer(t *testing.T) {
	t.Parallel()
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	env := newTestEnv(t).with("PAWL_STORE=redis://" + hole.Addr().String())
	s := env.serve() // it says its address before the store has answered
	if _, page := s.get("/"); !strings.Contains(page, `data-state="unknown"`) && !strings.Contains(page, `data-state="away"`) {
		t.Errorf("the page says:\n%s", page)
	}
	start := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.ended:
		if took := time.Since(start); err != nil || took > 10*time.Second { // 2 s, on a machine five times slower
			t.Errorf("it ended with %v after %v", err, took)
		}
		t.Logf("ended after %v", time.Since(start))
	case <-time.After(testTimeout):
		t.Fatal("the signal does not end it")
	}
}

func TestServeHasTheSameJSONAsLs(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("plain", "--reason", "why <b> \u202e")
	env.hold("gpu", "--slots", "4")
	waiting := env.command("pawl", "run", "plain", "--", "true")
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = waiting.Process.Kill(); _ = waiting.Wait() })
	leader := env.command("pawl", "elect", "job", "10.0.0.7:80", "--", "sleep", "60")
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = leader.Process.Signal(syscall.SIGTERM); _ = leader.Wait() })
	s := env.serve()
	read := func(text string) map[string]map[string]any {
		var all []map[string]any
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		byID := map[string]map[string]any{}
		for _, v := range all {
			for _, changing := range []string{"seconds", "left"} {
				if _, ok := v[changing].(float64); !ok {
					t.Errorf("no %s in %v", changing, v)
				}
				delete(v, changing)
			}
			byID[v["id"].(string)] = v
		}
		return byID
	}
	var api, ls map[string]map[string]any
	if !eventually(func() bool {
		_, body := s.get("/api/v1/locks")
		api, ls = read(body), read(env.run("pawl", "ls", "--json").out)
		return len(api) == 4 && len(ls) == 4
	}) {
		t.Fatalf("api %v\nls %v", api, ls)
	}
	a, _ := json.Marshal(api)
	b, _ := json.Marshal(ls)
	if !bytes.Equal(a, b) {
		t.Errorf("the API has\n%s\nls has\n%s", a, b)
	}
}

func TestServeKeepsRunningWithoutItsStore(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	redis.Stop()
	env := newTestEnv(t).with("PAWL_STORE=redis://"+redis.Addr(), contactEnv+"=1s")
	s := env.serve()
	page := s.until("/", `data-state="away"`)
	if !strings.Contains(page, "redis://"+redis.Addr()) || !strings.Contains(page, "Nothing has been seen yet.") {
		t.Errorf("the page does not name the store:\n%s", page)
	}
	if !strings.Contains(s.stderr(), "warning: ") {
		t.Errorf("no warning: %s", s.stderr())
	}
	redis.Restart()
	s.until("/", `data-state="ok"`)
	env.hold("x")
	s.until("/", `data-name="x"`)
}

func TestServeMakesNoStoreAndSeesOneThatIsMadeLater(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"local:", "sqlite:later.db"} {
		env := newTestEnv(t).with("PAWL_STORE=" + store)
		s := env.serve()
		switch page := s.until("/", "data-state="); store {
		case "local:":
			if !strings.Contains(page, "No lock is held") {
				t.Errorf("%s:\n%s", store, page)
			}
		default: // it may be misspelt
			if !strings.Contains(page, `data-state="away"`) || !strings.Contains(page, "no such file") || !strings.Contains(s.stderr(), "no such file") {
				t.Errorf("%s:\n%s\n%s", store, page, s.stderr())
			}
		}
		if files, err := os.ReadDir(env.dir); err != nil || len(files) != 0 {
			t.Errorf("%s: made %v, %v", store, files, err)
		}
		env.hold("x")
		s.until("/", `data-name="x"`)
	}
}

func TestServeBreaksLocksOnlyIfThatIsAllowed(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.hold("x")
	env.write("secret", "opensesame\n")
	for _, allowed := range []bool{false, true} {
		var flags []string
		if allowed {
			flags = []string{"--allow-unlock", "--password-file", "secret"}
		}
		s := env.serve(flags...)
		if allowed {
			s.url = strings.Replace(s.url, "http://", "http://ana:opensesame@", 1)
		}
		page := s.until("/name?name=x", `class="holder"`)
		if strings.Contains(page, `id="unlock"`) != allowed {
			t.Fatalf("allowed %v, and the page:\n%s", allowed, page)
		}
		form := url.Values{"name": {"x"}, "token": {env.list("inspect", "--json", "x")[0]["token"].(string)}}
		post := func(change func(*http.Request)) int {
			r, _ := http.NewRequest("POST", s.url+"/unlock", strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			change(r)
			resp, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		if code := post(func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }); code != 403 {
			t.Errorf("from another site: %d", code)
		}
		code := post(func(r *http.Request) { r.SetBasicAuth("olga =\"x\"", "opensesame") })
		if !allowed {
			if code != 403 || strings.Contains(s.stderr(), "audit") || len(env.list("inspect", "--json", "x")) != 1 {
				t.Errorf("not allowed: %d\n%s", code, s.stderr())
			}
			continue
		}
		audit := regexp.MustCompile(`(?m)^pawl: audit: time=\S+ by=\S+@\S+ pid=\d+ remote=127\.0\.0\.1:\d+ user="olga =\\"x\\"" broke="x" token=` + form.Get("token") + ` id=\w+ holder=".*"$`)
		if code != 200 || !eventually(func() bool { return audit.MatchString(s.stderr()) }) {
			t.Errorf("allowed: %d\n%s", code, s.stderr())
		}
		s.until("/name?name=x", "Nobody holds it")
		if code := post(func(*http.Request) {}); code != 409 || !eventually(func() bool { return strings.Contains(s.stderr(), `refused="x"`) }) {
			t.Errorf("again: %d\n%s", code, s.stderr())
		}
	}
}
