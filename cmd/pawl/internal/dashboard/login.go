package dashboard

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// For an address that has failed this often in this time, passwords are checked one at a time
// for the rest of it. It is not refused: behind a proxy all clients have one address, and
// whoever guesses there would lock out those who know the password.
const (
	loginTries  = 10
	loginWindow = time.Minute
	loginPause  = time.Second      // between two checks for such an address
	maxPause    = 10 * time.Second // a check that would come later is refused
	maxClients  = 1000             // addresses that are remembered
)

// login reports whether a request has the password, and answers it if not.
func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) bool {
	known, refused := d.checkLogin(r)
	switch {
	case known:
		return true
	case refused:
		w.Header().Set("Retry-After", strconv.Itoa(int(maxPause.Seconds())))
		http.Error(w, "too many wrong passwords from this address; try again later", http.StatusTooManyRequests)
	default:
		w.Header().Set("WWW-Authenticate", `Basic realm="pawl", charset="UTF-8"`)
		http.Error(w, "the password is needed; any user name will do", http.StatusUnauthorized)
	}
	return false
}

// checkLogin reports whether a request has the password, or could not be checked because too
// many of its address were wrong.
func (d *Dashboard) checkLogin(r *http.Request) (known, refused bool) {
	if d.o.Password == "" {
		return true, false
	}
	_, given, sent := r.BasicAuth()
	if !sent {
		return false, false
	}
	client := clientOf(r)
	pause, ok := d.logins.pause(client, time.Now())
	if !ok || !sleep(r.Context(), pause) {
		return false, true
	}
	if d.isPassword(given) {
		return true, false
	}
	if d.logins.failed(client, time.Now()) && d.o.WrongPasswords != nil {
		d.o.WrongPasswords(client)
	}
	return false, false
}

// sleep waits, and reports whether ctx did not end before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isPassword compares hashes, so that the time does not depend on length or content.
func (d *Dashboard) isPassword(given string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(d.o.Password))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
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
	next  time.Time // when the next password is checked
}

func newLoginLimit() *loginLimit { return &loginLimit{clients: map[netip.Addr]*failures{}} }

// pause returns how long the check of a client's password has to wait; not ok, if too many
// wait already.
func (l *loginLimit) pause(client netip.Addr, now time.Time) (d time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.clients[client]
	if f == nil || f.n < loginTries || now.Sub(f.since) >= loginWindow {
		return 0, true
	}
	if d = max(0, f.next.Sub(now)); d > maxPause {
		return 0, false
	}
	f.next = now.Add(d + loginPause)
	return d, true
}

// failed counts a wrong password, and reports whether it is the one with which the client's
// checks become slow.
func (l *loginLimit) failed(client netip.Addr, now time.Time) bool {
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
	return f.n == loginTries
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
