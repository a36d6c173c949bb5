package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// An address that has failed this often in this time is refused for the rest of it.
const (
	loginTries  = 10
	loginWindow = time.Minute
	maxClients  = 1000 // addresses that are remembered
)

// login reports whether a request has the password, and answers it if not.
func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) bool {
	if d.o.Password == "" {
		return true
	}
	client := clientOf(r)
	_, given, sent := r.BasicAuth()
	if sent && d.logins.blocked(client, time.Now()) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many wrong passwords from this address; try again in a minute", http.StatusTooManyRequests)
		return false
	}
	if sent && d.isPassword(given) {
		return true
	}
	if sent {
		d.logins.failed(client, time.Now())
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="pawl", charset="UTF-8"`)
	http.Error(w, "the password is needed; any user name will do", http.StatusUnauthorized)
	return false
}

// isPassword compares hashes, so that the time does not depend on length or content.
func (d *Dashboard) isPassword(given string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(d.o.Password))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// loggedIn reports whether a request may see everything, without an answer to it.
func (d *Dashboard) loggedIn(r *http.Request) bool {
	if d.o.Password == "" {
		return true
	}
	_, given, sent := r.BasicAuth()
	if !sent || d.logins.blocked(clientOf(r), time.Now()) {
		return false
	}
	ok := d.isPassword(given)
	if !ok {
		d.logins.failed(clientOf(r), time.Now())
	}
	return ok
}

// clientOf returns the address of a client; for IPv6 its network, because a client
// can choose any address in it.
func clientOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		network, _ := addr.Prefix(64)
		return network.Addr()
	}
	return addr
}

// A loginLimit counts failed logins by client.
type loginLimit struct {
	mu      sync.Mutex // guards clients
	clients map[netip.Addr]*failures
}

type failures struct {
	since time.Time
	n     int
}

func newLoginLimit() *loginLimit { return &loginLimit{clients: map[netip.Addr]*failures{}} }

func (l *loginLimit) blocked(client netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.clients[client]
	return f != nil && now.Sub(f.since) < loginWindow && f.n >= loginTries
}

func (l *loginLimit) failed(client netip.Addr, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.clients[client]
	if f == nil || now.Sub(f.since) >= loginWindow {
		if len(l.clients) >= maxClients {
			l.forgetLocked(now)
		}
		f = &failures{since: now}
		l.clients[client] = f
	}
	f.n++
}

// forgetLocked makes room: it forgets the clients whose time is over, or else the one
// that failed first.
func (l *loginLimit) forgetLocked(now time.Time) {
	var oldest netip.Addr
	for client, f := range l.clients {
		if now.Sub(f.since) >= loginWindow {
			delete(l.clients, client)
		} else if o := l.clients[oldest]; o == nil || f.since.Before(o.since) {
			oldest = client
		}
	}
	if len(l.clients) >= maxClients {
		delete(l.clients, oldest)
	}
}
