package rueidis_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestTLSIsCheckedAndNeverLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := testserver.Certificate(t, dir, "server", "127.0.0.1")
	other, _ := testserver.Certificate(t, dir, "other", "127.0.0.1")
	elsewhere, elsewhereKey := testserver.Certificate(t, dir, "elsewhere", "192.0.2.1")
	start := func(cert, key string) string {
		port := fmt.Sprint(testserver.FreePort(t))
		testserver.Redis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
			"--tls-ca-cert-file", cert, "--tls-auth-clients", "optional")
		return "127.0.0.1:" + port
	}
	right, wrongName := start(cert, key), start(elsewhere, elsewhereKey)
	for store, works := range map[string]bool{
		"rediss://" + right + "?tls-ca=" + cert:                                           true,
		"redis://" + right + "?tls=yes&tls-ca=" + cert:                                    true,
		"rediss://" + right + "?tls-ca=" + cert + "&tls-cert=" + cert + "&tls-key=" + key: true,
		"rediss://" + right:                                                      false, // not signed by a known authority
		"rediss://" + right + "?tls-ca=" + other:                                 false,
		"rediss://" + wrongName + "?tls-ca=" + elsewhere:                         false,
		"rediss://" + wrongName + "?tls-ca=" + elsewhere + "&tls-name=192.0.2.1": true,
		"redis://" + right:                                                       false, // the server requires TLS
		"redis://" + right + "?tls-ca=" + cert:                                   false, // without TLS
		"rediss://" + right + "?tls=no":                                          false,
		"rediss://" + right + "?tls-ca=" + filepath.Join(dir, "missing"):         false,
		"rediss://" + right + "?tls-ca=" + cert + "&tls-cert=" + cert:            false,
	} {
		e, err := open(t.Context(), store)
		if (err == nil) != works {
			t.Errorf("%s: %v", store, err)
		}
		if err == nil {
			_ = e.Close()
		}
	}
}

// A fault of the URL is not an unreachable store: it is not repeated, and has a code of its
// own.
func TestAURLThatDoesNotFitItsServerIsABadURL(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	for store, want := range map[string]string{
		"rediss://:secret@" + s.Addr():                                     "without TLS",
		"redis://" + s.Addr() + "?prefix=a&prefix=b":                       "twice",
		"redis://" + s.Addr() + "?sentinel-auth=yes":                       "redis-sentinel",
		"redis-cluster://" + s.Addr() + "?sentinel-auth=yes":               "redis-sentinel",
		"rediss://" + s.Addr() + "?tls-ca=" + t.TempDir() + "/missing":     "tls-ca",
		"rediss://" + s.Addr() + "?tls-cert=/missing.pem&tls-key=/missing": "tls-cert",
	} {
		e, err := open(t.Context(), store)
		if err == nil {
			_ = e.Close()
		}
		if !errors.Is(err, driver.ErrURL) || errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, not ErrURL with %q", store, err, want)
		}
	}
}
