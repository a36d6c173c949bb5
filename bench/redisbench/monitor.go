package redisbench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// A monitor counts the commands that clients send. The server's own counters
// include commands inside scripts; MONITOR does not. PING is left out, because it
// only maintains connections and is the same for every lock.
type monitor struct {
	addr   string
	client rueidis.Client

	conn  net.Conn
	count chan int // the number of commands until the mark; closed when the connection ends
	mark  string
}

func (m *monitor) Start(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.addr)
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	lines := bufio.NewReaderSize(conn, 1<<20)
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		return err
	}
	if answer, err := lines.ReadString('\n'); err != nil || answer != "+OK\r\n" {
		return fmt.Errorf("MONITOR answered %q: %w", answer, err)
	}
	m.conn, m.count, m.mark = conn, make(chan int, 1), fmt.Sprintf("mark-%d", time.Now().UnixNano())
	go m.read(lines) // Stop waits for it
	return nil
}

func (m *monitor) read(lines *bufio.Reader) {
	defer close(m.count)
	for n := 0; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		switch {
		case strings.Contains(line, m.mark):
			m.count <- n
			return
		case strings.Contains(line, " lua] "), strings.Contains(line, `] "PING"`), strings.Contains(line, `] "ping"`):
		default:
			n++
		}
	}
}

func (m *monitor) Stop(ctx context.Context) (int, error) {
	if m.conn == nil {
		return 0, fmt.Errorf("monitor: not started")
	}
	defer m.conn.Close()
	// Commands sent before the mark are reported before it.
	err := m.client.Do(ctx, m.client.B().Echo().Message(m.mark).Build()).Error()
	if err != nil {
		m.conn.Close()
	}
	n, ok := <-m.count
	m.conn = nil
	if err == nil && !ok {
		err = fmt.Errorf("monitor: the link has ended")
	}
	return n, err
}
