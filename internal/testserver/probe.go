package testserver

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
)

// accepts is the default probe.
func accepts(ctx context.Context, s *Server) error {
	conn, err := dial(ctx, s)
	if err != nil {
		return err
	}
	return conn.Close()
}

// dial connects to the first port of s. The connection is valid until ctx's
// deadline.
func dial(ctx context.Context, s *Server) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	return conn, nil
}

// tail returns the last n bytes of a file, or why it cannot.
func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(info.Size()-n, 0), n))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// getJSON reads what a server's HTTP interface says, over a connection of its own that
// does not stay open.
func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}
