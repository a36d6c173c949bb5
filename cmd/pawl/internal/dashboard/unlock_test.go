package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// unlockable is a site that may break locks.
func unlockable(t *testing.T) *site {
	t.Helper()
	e := newMemory(t)
	return newSite(t, e, func(o *Options) {
		o.Evict = func(ctx context.Context, entry driver.Entry) error { return pawl.New(e).Evict(ctx, entry) }
	})
}

func (s *site) post(form url.Values, change func(*http.Request)) answer {
	s.t.Helper()
	return s.do("POST", "/unlock", form.Encode(), func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+s.addr)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if change != nil {
			change(r)
		}
	})
}

// form reads the form of a name's page, as a browser does.
func (s *site) form(name string) url.Values {
	s.t.Helper()
	var page string
	eventually(s.t, "the page has the form", func() bool {
		page = s.get("/name?name="+url.QueryEscape(name), nil).body
		return strings.Contains(page, `id="unlock"`)
	})
	form := url.Values{"name": {name}}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`).FindAllStringSubmatch(page, -1) {
		form.Set(m[1], m[2])
	}
	if form.Get("token") == "" || form.Get("lock") != name {
		s.t.Fatalf("the form has %v", form)
	}
	return form
}

func TestUnlockBreaksExactlyTheHolderThatWasShown(t *testing.T) {
	t.Parallel()
	s := unlockable(t)
	ana, bo := newClient(t, s.store.Engine(), "ana@h pid 1 x"), newClient(t, s.store.Engine(), "bo@h pid 2 x")
	lease := hold(t, ana, "deploy")
	other := hold(t, ana, "other")
	form := s.form("deploy")
	got := s.post(form, func(r *http.Request) { r.SetBasicAuth("olga", "") })
	if got.status != 200 || !strings.Contains(got.body, `id="result" role="status" class="good"`) {
		t.Fatalf("%d %s", got.status, got.body)
	}
	select {
	case <-lease.Context().Done():
	case <-time.After(testTimeout):
		t.Fatal("the holder was not told")
	}
	if other.Err() != nil {
		t.Errorf("another lock was lost: %v", other.Err())
	}
	audit := <-s.audits
	if audit.Name != "deploy" || audit.Token != form.Get("token") || audit.User != "olga" || audit.Entry == nil || audit.Result != "done" || !strings.HasPrefix(audit.Remote, "127.0.0.1:") {
		t.Errorf("the audit says %+v", audit)
	}

	next := hold(t, bo, "deploy")
	got = s.post(form, nil) // the page was not reloaded
	if got.status != 409 || !strings.Contains(got.body, "has changed hands") || next.Err() != nil {
		t.Errorf("a stale token: %d, %v", got.status, next.Err())
	}
	if audit := <-s.audits; audit.Entry != nil || !strings.Contains(audit.Result, "changed hands") {
		t.Errorf("the audit says %+v", audit)
	}
}

func TestUnlockRefusesWhatWasNotMeant(t *testing.T) {
	t.Parallel()
	s := unlockable(t)
	lease := hold(t, newClient(t, s.store.Engine(), "ana@h pid 1 x"), "deploy")
	right := s.form("deploy")
	with := func(key, value string) url.Values {
		form := url.Values{}
		for k, v := range right {
			form[k] = v
		}
		form.Set(key, value)
		return form
	}
	for _, c := range []struct {
		form url.Values
		want int
		says string
	}{
		{with("name", ""), 400, "not its name"},
		{with("name", "Deploy"), 400, "not its name"},
		{with("name", "deploy "), 400, "not its name"},
		{with("name", `""`), 400, "not its name"},
		{with("token", ""), 400, "not a token"},
		{with("token", "x"), 400, "not a token"},
		{with("token", "-1"), 400, "not a token"},
		{with("token", "512"), 409, "has changed hands"},
		{with("id", "another"), 409, "has changed hands"},
		{url.Values{"name": {"free"}, "token": {"256"}}, 409, "nobody holds it"},
		{url.Values{}, 400, "not its name"},
	} {
		got := s.post(c.form, nil)
		if got.status != c.want || c.form.Get("name") != "" && !strings.Contains(got.body, c.says) {
			t.Errorf("%v: %d, want %d", c.form, got.status, c.want)
		}
		if audit := <-s.audits; audit.Entry != nil {
			t.Errorf("%v: the audit says %+v", c.form, audit)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"a foreign origin":   func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"a foreign host":     func(r *http.Request) { r.Host = "evil.example" },
		"a cross-site fetch": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a same-site fetch":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"no origin, but cross-site": func(r *http.Request) {
			r.Header.Del("Origin")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		},
	} {
		if got := s.post(right, change); got.status != 403 && got.status != 421 {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	if got := s.do("GET", "/unlock?"+right.Encode(), "", nil); got.status != 303 {
		t.Errorf("GET: %d", got.status)
	}
	if got := s.post(with("name", strings.Repeat("x", 1<<20)), nil); got.status != 400 {
		t.Errorf("a huge form: %d", got.status)
	}
	if lease.Err() != nil {
		t.Errorf("the lock was lost: %v", lease.Err())
	}
	if len(s.audits) > 0 {
		t.Errorf("requests that were refused at the door are audited: %+v", <-s.audits)
	}
}

func TestUnlockIsOffUnlessItIsAllowed(t *testing.T) {
	t.Parallel()
	s := newSite(t, newMemory(t), nil)
	lease := hold(t, newClient(t, s.store.Engine(), "ana@h pid 1 x"), "deploy")
	eventually(t, "the lock is shown", func() bool { return strings.Contains(s.get("/name?name=deploy", nil).body, "ana@h") })
	if page := s.get("/name?name=deploy", nil).body; strings.Contains(page, "<form") {
		t.Error("there is a form")
	}
	token := s.get("/api/v1/locks", nil).body
	token = regexp.MustCompile(`"token": "(\d+)"`).FindStringSubmatch(token)[1]
	got := s.post(url.Values{"name": {"deploy"}, "lock": {"deploy"}, "token": {token}}, nil)
	if got.status != 403 || lease.Err() != nil || len(s.audits) > 0 {
		t.Errorf("%d, %v", got.status, lease.Err())
	}
}

// The line is read again right before, and Evict checks once more.
func TestUnlockToldByTheStoreThatItWasTooLate(t *testing.T) {
	t.Parallel()
	e := newMemory(t)
	reason := pawl.ErrNotHeld
	s := newSite(t, e, func(o *Options) {
		o.Evict = func(context.Context, driver.Entry) error { return reason }
		o.Explain = func(err error) string { return "explained: " + err.Error() }
	})
	hold(t, newClient(t, e, "ana@h pid 1 x"), "deploy")
	form := s.form("deploy")
	if got := s.post(form, nil); got.status != 409 || !strings.Contains(got.body, "has changed hands") {
		t.Errorf("too late: %d", got.status)
	}
	reason = errors.New("no route")
	if got := s.post(form, nil); got.status != 503 || !strings.Contains(got.body, "explained: no route") {
		t.Errorf("store away: %d", got.status)
	}
	reason = pawl.ErrUnreachable // the store may have done it
	if got := s.post(form, nil); got.status != 503 || !strings.Contains(got.body, "it may be broken") {
		t.Errorf("no answer: %d", got.status)
	}
	for i, unknown := range []bool{false, false, true} {
		if audit := <-s.audits; audit.Unknown != unknown || audit.Entry != nil {
			t.Errorf("audit of attempt %d: %+v", i, audit)
		}
	}
}

func TestAnElectionIsBrokenByItsOwnName(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]bool{"jobs": true, ".pawl/election/jobs": true, "job": false, "": false} {
		if got := confirms(typed, ".pawl/election/jobs"); got != want {
			t.Errorf("%q: %v", typed, got)
		}
	}
	for typed, want := range map[string]bool{"a\u200bb": true, `"a\u200bb"`: true, "ab": false} {
		if got := confirms(typed, "a\u200bb"); got != want {
			t.Errorf("%q: %v", typed, got)
		}
	}
}

// The store may have done it already when the browser leaves.
func TestABrowserThatLeavesDoesNotHideAnUnlockFromTheAudit(t *testing.T) {
	t.Parallel()
	e := newMemory(t)
	ctx, leave := context.WithCancel(t.Context())
	s := newSite(t, e, func(o *Options) {
		o.Evict = func(ctx context.Context, entry driver.Entry) error {
			err := pawl.New(e).Evict(ctx, entry)
			leave()
			return errors.Join(err, ctx.Err())
		}
	})
	hold(t, newClient(t, e, "ana@h pid 1 x"), "deploy")
	r := httptest.NewRequestWithContext(ctx, "POST", "/unlock", strings.NewReader(s.form("deploy").Encode()))
	r.Host = s.addr
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	s.d.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if audit := <-s.audits; audit.Entry == nil || audit.Result != "done" {
		t.Errorf("the lock was broken, and the audit says %+v", audit)
	}
}
