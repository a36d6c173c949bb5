package rueidis_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-go/pawl/internal/testserver"
)

func TestTLSIsCheckedAndNeverLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "server", net.ParseIP("127.0.0.1"))
	other, _ := certificate(t, dir, "other", net.ParseIP("127.0.0.1"))
	elsewhere, elsewhereKey := certificate(t, dir, "elsewhere", net.ParseIP("192.0.2.1"))
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

// certificate writes a self-signed certificate and its key.
func certificate(t *testing.T, dir, name string, ip net.IP) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{ip},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: hidden}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o644); err != nil { // the server may run as another user
			t.Fatal(err)
		}
	}
	return cert, key
}
