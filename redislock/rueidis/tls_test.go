package rueidis_test

import (
	"fmt"
	"path/filepath"
	"testing"

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
