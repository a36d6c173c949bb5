package natslock

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driverkit"
	"github.com/pawl-go/pawl/internal/testserver"
)

// allowed is what an account needs, as docs/nats.md says.
var allowed = []string{
	"$JS.API.INFO", "$JS.API.STREAM.INFO.KV_pawl", "$JS.API.STREAM.CREATE.KV_pawl", "$JS.API.STREAM.MSG.GET.KV_pawl",
	"$KV.pawl.>", "pawl.pawl.>",
}

// restricted starts a server at which user ana may publish and subscribe only what is
// given, and user root everything.
func restricted(t *testing.T, publish, subscribe []string) *testserver.Server {
	t.Helper()
	list := func(subjects []string) string { return `["` + strings.Join(subjects, `", "`) + `"]` }
	return testserver.NATS(t, fmt.Sprintf(
		`authorization { users: [{user: root, password: word}, {user: ana, password: word, permissions: {publish: %s, subscribe: %s}}] }`,
		list(publish), list(subscribe)))
}

func as(user string, server *testserver.Server) string {
	return "nats://" + user + ":word@" + server.Addr()
}

func TestTheRightsThatAreListedSuffice(t *testing.T) {
	t.Parallel()
	server := restricted(t, allowed, []string{"_INBOX.>", "pawl.pawl.>"})
	js := connect(t, as("ana", server))
	departures, err := New(js).Watch(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{}, 1)
	one := openURLs(t, as("ana", server))
	two := openURLs(t, as("ana", server), pawl.WithObserver(pawl.ObserverFunc(func(e pawl.Event) {
		if e.Kind == pawl.Waiting {
			driverkit.Signal(waits)
		}
	})))
	first, err := one.Mutex("name").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		second, err := two.Mutex("name").Lock(t.Context())
		if err == nil {
			err = second.Unlock()
		}
		waiting <- err
	}()
	select {
	case <-waits:
	case err := <-waiting:
		t.Fatalf("it did not wait: %v; the first lock: %v", err, first.Err())
	}
	if err := errors.Join(first.Unlock(), <-waiting); err != nil {
		t.Error(err)
	}
	<-departures
}

func openURLs(t *testing.T, store string, opts ...pawl.Option) *pawl.Client {
	t.Helper()
	c, err := pawl.Open(t.Context(), store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	for _, missing := range append([]string{"_INBOX.>"}, allowed...) {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			subscribe := []string{"_INBOX.>", "pawl.pawl.>"}
			without := func(all []string) (rest []string) {
				for _, s := range all {
					if s != missing {
						rest = append(rest, s)
					}
				}
				return rest
			}
			server := restricted(t, without(allowed), without(subscribe))
			admin := connect(t, as("root", server))
			if missing != "$JS.API.STREAM.CREATE.KV_pawl" {
				if err := lockOn(t, admin, defaultBucket); err != nil { // makes the bucket
					t.Fatal(err)
				}
			}
			before, err := admin.Stream(t.Context(), "KV_pawl")
			line := uint64(0)
			if err == nil {
				held, err := pawl.New(New(admin)).Mutex("name", pawl.WithTTL(time.Minute)).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer held.Unlock()
				line = lastOf(t, before, "line.name")
			}
			c := openURLs(t, as("ana", server))
			_, err = c.Mutex("name").Lock(t.Context()) // waits, but for the missing right
			expectError(t, missing, err, pawl.ErrDenied, strings.TrimSuffix(missing, ">"))
			after, err := admin.Stream(t.Context(), "KV_pawl")
			switch {
			case before == nil:
				if !errors.Is(err, jetstream.ErrStreamNotFound) {
					t.Errorf("a bucket was made: %v", err)
				}
			case err != nil:
				t.Error(err)
			case missing != "pawl.pawl.>" && lastOf(t, after, "line.name") != line:
				t.Error("the line was written")
			}
		})
	}
}

// lastOf returns the sequence of a key's last message.
func lastOf(t *testing.T, stream jetstream.Stream, key string) uint64 {
	t.Helper()
	msg, err := stream.GetLastMsgForSubject(t.Context(), strings.TrimSuffix(stream.CachedInfo().Config.Subjects[0], ">")+key)
	if err != nil {
		t.Fatal(err)
	}
	return msg.Sequence
}

func TestAWrongPasswordIsDenied(t *testing.T) {
	t.Parallel()
	server := restricted(t, allowed, []string{">"})
	for _, store := range []string{"nats://ana:hidden-word@" + server.Addr(), "nats://hidden-word@" + server.Addr(), "nats://" + server.Addr()} {
		c, err := pawl.Open(t.Context(), store)
		if err == nil {
			c.Close()
		}
		expectError(t, store, err, pawl.ErrDenied)
		if err != nil && strings.Contains(err.Error(), "hidden-word") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// works takes and gives back a lock.
func works(t *testing.T, store string) {
	t.Helper()
	l, err := openURLs(t, store).Mutex("name").TryLock(t.Context())
	if err != nil {
		t.Errorf("%s: %v", store, err)
		return
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestATokenAndAnNkeyFileAreUsed(t *testing.T) {
	t.Parallel()
	withToken := testserver.NATS(t, "authorization { token: hidden-word }")
	works(t, "nats://hidden-word@"+withToken.Addr())

	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	withKey := testserver.NATS(t, fmt.Sprintf("authorization { users: [{nkey: %s}] }", publicKey(t, user)))
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	works(t, "nats://"+withKey.Addr()+"?nkey="+url.QueryEscape(file(t, "user.nk", string(seed)+"\n")))
	_, err = pawl.Open(t.Context(), "nats://"+withKey.Addr()+"?nkey="+url.QueryEscape(file(t, "empty.nk", "")))
	expectError(t, "an empty file", err, nil, "no seed in the file")
}

func TestACredsFileIsUsed(t *testing.T) {
	t.Parallel()
	operator, account, system, user := pair(t, nkeys.CreateOperator), pair(t, nkeys.CreateAccount), pair(t, nkeys.CreateAccount), pair(t, nkeys.CreateUser)
	all := map[string]any{"subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1, "payload": -1, "wildcards": true}
	stores := map[string]any{"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
	for key, limit := range all {
		stores[key] = limit
	}
	accountJWT := token(t, operator, account, map[string]any{"type": "account", "version": 2, "limits": stores})
	systemJWT := token(t, operator, system, map[string]any{"type": "account", "version": 2, "limits": all})
	server := testserver.NATS(t,
		"operator: "+token(t, operator, operator, map[string]any{"type": "operator", "version": 2, "system_account": publicKey(t, system)}),
		"resolver: MEMORY", "system_account: "+publicKey(t, system),
		fmt.Sprintf("resolver_preload { %s: %s, %s: %s }", publicKey(t, account), accountJWT, publicKey(t, system), systemJWT))
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	userJWT := token(t, account, user, map[string]any{"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1})
	creds := fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", userJWT, seed)
	works(t, "nats://"+server.Addr()+"?creds="+url.QueryEscape(file(t, "user.creds", creds)))
	_, err = pawl.Open(t.Context(), "nats://"+server.Addr())
	expectError(t, "no creds", err, pawl.ErrDenied)
}

func pair(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	p, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func publicKey(t *testing.T, p nkeys.KeyPair) string {
	t.Helper()
	key, err := p.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// token returns a JWT as NATS has them.
func token(t *testing.T, issuer, subject nkeys.KeyPair, claims map[string]any) string {
	t.Helper()
	encode := func(x any) string {
		text, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := encode(map[string]any{"typ": "JWT", "alg": "ed25519-nkey"}) + "." +
		encode(map[string]any{"jti": "x", "iat": time.Now().Unix(), "iss": publicKey(t, issuer), "sub": publicKey(t, subject), "name": "a test", "nats": claims})
	signature, err := issuer.Sign([]byte(text))
	if err != nil || len(signature) != ed25519.SignatureSize {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTLSIsCheckedAndNeverLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := testserver.Certificate(t, dir, "server", "127.0.0.1")
	other, _ := testserver.Certificate(t, dir, "other", "127.0.0.1")
	encrypted := testserver.NATS(t, fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }", cert, key, cert)).Addr()
	plain := testserver.NATS(t).Addr()
	client := "&tls-cert=" + cert + "&tls-key=" + key
	works(t, "nats://"+encrypted+"?tls=yes&tls-ca="+cert+client)
	for what, store := range map[string]string{
		"an unknown authority": encrypted + "?tls=yes" + client,
		"another authority":    encrypted + "?tls=yes&tls-ca=" + other + client,
		"no certificate":       encrypted + "?tls=yes&tls-ca=" + cert,
		"no TLS":               encrypted,
		"a server without":     plain + "?tls=yes&tls-ca=" + cert,
	} {
		c, err := pawl.Open(t.Context(), "nats://"+store)
		if err == nil {
			c.Close()
		}
		expectError(t, what, err, pawl.ErrUnreachable)
	}
}
