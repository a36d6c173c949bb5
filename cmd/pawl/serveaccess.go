package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
)

// address returns the address to listen on.
func (f serveFlags) address() (*net.TCPAddr, error) {
	addr, err := net.ResolveTCPAddr("tcp", f.listen)
	if err != nil {
		return nil, usagef("--listen %s: write HOST:PORT, such as 127.0.0.1:7295", f.listen)
	}
	return addr, nil
}

// names returns the names of this server: the one in --listen, or on all addresses
// that of the machine.
func (f serveFlags) names(addr *net.TCPAddr) []string {
	if addr.IP == nil || addr.IP.IsUnspecified() {
		name, err := os.Hostname()
		if err != nil {
			return nil
		}
		return []string{name}
	}
	host, _, _ := net.SplitHostPort(f.listen) // it was parsed before
	return []string{host}
}

// shownAddress returns where a browser on this machine finds the server.
func shownAddress(addr *net.TCPAddr, encrypted bool) string {
	scheme := "http"
	if encrypted {
		scheme = "https"
	}
	if addr.IP.IsUnspecified() {
		return fmt.Sprintf("%s://127.0.0.1:%d/ and all other addresses of this machine", scheme, addr.Port)
	}
	return scheme + "://" + addr.String() + "/"
}

// hosts returns the names of --allow-host.
func (f serveFlags) hosts() ([]string, error) {
	for _, host := range f.allowHosts {
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
			continue
		}
		if host == "" || strings.ContainsAny(host, ":/@ ") {
			return nil, usagef("--allow-host %s: write a name alone, without scheme and port, such as locks.example.com", host)
		}
	}
	return f.allowHosts, nil
}

// credentials returns what is asked of clients: a password, or certificates, or
// neither on a loopback address. config is nil without TLS.
func (f serveFlags) credentials(addr *net.TCPAddr) (password string, config *tls.Config, err error) {
	switch {
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return "", nil, usagef("--tls-cert and --tls-key belong together")
	case f.clientCA != "" && f.tlsCert == "":
		return "", nil, usagef("--client-ca needs --tls-cert and --tls-key")
	case f.allowUnlock && f.passwordFile == "" && f.clientCA == "":
		return "", nil, usagef("--allow-unlock: every user of this machine could break locks: give --password-file, or --client-ca with --tls-cert and --tls-key")
	case !addr.IP.IsLoopback() && f.passwordFile == "" && f.clientCA == "":
		return "", nil, usagef("--listen %s: other machines can reach this address: give --password-file, or --client-ca with --tls-cert and --tls-key", f.listen)
	}
	if f.passwordFile != "" {
		if password, err = readPassword(f.passwordFile); err != nil {
			return "", nil, &exitError{exitConfig, fmt.Errorf("--password-file: %w", err)}
		}
	}
	if f.tlsCert != "" {
		if config, err = f.tlsConfig(); err != nil {
			return "", nil, &exitError{exitConfig, err}
		}
	}
	return password, config, nil
}

// maxPasswordFile is larger than any password.
const maxPasswordFile = 4 << 10

// readPassword reads the only line of a file that others cannot read; the group may, if root
// owns the file, as where secrets are mounted. Its errors quote nothing from the file.
func readPassword(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	closed := fs.FileMode(0o077)
	if uid, ok := ownerOf(info); ok && uid == 0 {
		closed = 0o037
	}
	if mode := info.Mode().Perm(); hasFileModes && mode&closed != 0 {
		return "", fmt.Errorf("others may open %s (mode %04o): run chmod 600 %s", name, mode, shellWord(name))
	}
	b, err := io.ReadAll(io.LimitReader(file, maxPasswordFile))
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" || len(b) == maxPasswordFile || strings.ContainsAny(password, "\r\n") {
		return "", fmt.Errorf("%s must have one line, the password", name)
	}
	return password, nil
}

// tlsConfig reads the certificates.
func (f serveFlags) tlsConfig() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.tlsCert, f.tlsKey, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if f.clientCA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, fmt.Errorf("--client-ca: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--client-ca %s: no certificate in it", f.clientCA)
	}
	return config, nil
}
