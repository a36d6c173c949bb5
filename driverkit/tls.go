package driverkit

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/pawl-go/pawl/driver"
)

// TLS returns the TLS configuration that the URL asks for, and nil for none. wanted says
// that the scheme asks for it already. The parameters are
//
//	tls       yes, no or skip-verify, which does not check the server's certificate
//	tls-ca    a file with the certificates of the authorities that may sign the server's
//	tls-cert  a file with the client's certificate
//	tls-key   a file with the key to it
//	tls-name  the name in the server's certificate, if it is not the host's
//
// The older names of the files are ca, cert and key. ServerName is empty without
// tls-name: the client sets it to the host of each connection.
func (r *URL) TLS(wanted bool) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch asked, found := r.Text("tls"); asked {
	case "yes", "on", "true":
		wanted = true
	case "no", "off", "false":
		if wanted {
			r.Fail("parameter tls contradicts %s://", r.u.Scheme)
		}
	case "skip-verify":
		wanted, config.InsecureSkipVerify = true, true
	default:
		if found {
			r.Fail("parameter tls is not yes, no or skip-verify")
		}
	}
	ca, hasCA := r.Text("tls-ca", "ca")
	cert, hasCert := r.Text("tls-cert", "cert")
	key, hasKey := r.Text("tls-key", "key")
	name, hasName := r.Text("tls-name")
	if !wanted {
		if hasCA || hasCert || hasKey || hasName {
			r.Fail("tls- parameters have no use without TLS: add tls=yes")
		}
		return nil
	}
	config.ServerName = name
	if hasCA {
		config.RootCAs = r.certificates(ca)
	}
	if hasCert != hasKey {
		r.Fail("parameters tls-cert and tls-key go together")
	}
	if hasCert && hasKey && r.err == nil {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			r.Fail("parameters tls-cert and tls-key: %v", driver.WithoutPath(err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// certificates reads the file of tls-ca.
func (r *URL) certificates(file string) *x509.CertPool {
	pool := x509.NewCertPool()
	text, err := os.ReadFile(file)
	if err != nil {
		r.Fail("parameter tls-ca: %v", driver.WithoutPath(err))
	} else if !pool.AppendCertsFromPEM(text) {
		r.Fail("parameter tls-ca: no certificate in the file")
	}
	return pool
}
