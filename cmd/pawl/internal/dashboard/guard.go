package dashboard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// policy allows what the pages use: files of this server, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxQuery is the longest filter, in bytes. Each is compared with every name, which has at
// most 255.
const maxQuery = 512

// guard refuses what no page of this server sends, before any handler sees it.
func (d *Dashboard) guard(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next) // also refuses unsafe requests by Sec-Fetch-Site
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for key, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "same-origin", // with no-referrer, browsers send forms with the origin null
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-store",
		} {
			w.Header().Set(key, value)
		}
		switch {
		case !d.knowsHost(r):
			// Another name that resolves to this address: a page of that name could read
			// the answer as its own.
			http.Error(w, "this server has another name; --allow-host adds one", http.StatusMisdirectedRequest)
		case !sameOrigin(r), embedded(r):
			http.Error(w, "requests from other sites are refused", http.StatusForbidden)
		case r.Method == http.MethodPost && r.URL.Path != "/unlock", r.Method != http.MethodPost && r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		case len(r.URL.Query().Get("q")) > maxQuery:
			http.Error(w, "the filter is longer than any name", http.StatusBadRequest)
		case r.URL.Path == "/healthz" || d.login(w, r):
			next.ServeHTTP(w, r)
		}
	})
}

// knowsHost reports whether the Host of a request is a name of this server.
func (d *Dashboard) knowsHost(r *http.Request) bool {
	name, port := splitHost(r)
	if slices.ContainsFunc(d.o.Hosts, func(host string) bool { return sameName(host, name) }) {
		return true
	}
	if port != strconv.Itoa(d.o.Port) {
		return false
	}
	if sameName(name, "localhost") || slices.ContainsFunc(d.o.Names, func(own string) bool { return sameName(own, name) }) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return addr.IsLoopback() || addr.Unmap() == addressOf(local)
}

// splitHost returns name and port of the Host header, with the scheme's usual port.
func splitHost(r *http.Request) (name, port string) {
	name, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		name, port = strings.TrimSuffix(strings.TrimPrefix(r.Host, "["), "]"), "80"
		if r.TLS != nil {
			port = "443"
		}
	}
	return name, port
}

func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

// addressOf returns the address of this end of the connection.
func addressOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// sameOrigin reports whether a request comes from a page of this server or from no
// page. Host was checked before.
func sameOrigin(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return true
	}
	origin, err := url.Parse(values[0])
	return len(values) == 1 && err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host) &&
		(origin.Scheme == "http" || origin.Scheme == "https")
}

// embedded reports whether a page of another site asks for something to use in itself,
// such as an image. The browser would not let it see the answer, but a hundred images
// would take all streams. Links from other sites are fine.
func embedded(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
