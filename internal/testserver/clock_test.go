package testserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestAClockIsSteppedWhileAServerRuns(t *testing.T) {
	t.Parallel()
	c := NewClock(t)
	s := RedisOn(t, c)
	for _, step := range []time.Duration{0, time.Hour, -2 * time.Hour} {
		c.Step(step)
		got, err := redisTime(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		want := time.Now().Add(c.off)
		if d := got.Sub(want).Abs(); d > 5*time.Second {
			t.Errorf("after a step of %v the server shows %v, not %v", step, got, want)
		}
	}
}

// redisTime asks a server for its time.
func redisTime(addr string) (time.Time, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "TIME\r\n"); err != nil {
		return time.Time{}, err
	}
	r := bufio.NewReader(conn)
	var lines []string
	for range 3 { // *2, $10, the seconds
		line, err := r.ReadString('\n')
		if err != nil {
			return time.Time{}, err
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	seconds, err := strconv.ParseInt(lines[2], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("TIME answered %q", lines)
	}
	return time.Unix(seconds, 0), nil
}
