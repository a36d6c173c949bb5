package testserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"
	"time"
)

// A refusal is an error reply of Redis.
type refusal string

func (r refusal) Error() string { return string(r) }

// ask sends one command to the Redis at addr over a connection of its own. The
// answer is a string, an int64, a []any of answers, or nil.
func ask(ctx context.Context, addr string, command ...string) (any, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	request := fmt.Appendf(nil, "*%d\r\n", len(command))
	for _, word := range command {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	answer, err := readAnswer(bufio.NewReader(conn))
	if err != nil {
		return nil, fmt.Errorf("%s: %v: %w", addr, command, err)
	}
	return answer, nil
}

func readAnswer(r *bufio.Reader) (any, error) {
	text, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(text) < 3 {
		return nil, fmt.Errorf("answered %q", text)
	}
	kind, text := text[0], text[1:len(text)-2]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, refusal(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, err
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil // a null reply
	case kind == '$':
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		return string(body[:n]), nil
	case kind == '*':
		return readAnswers(r, int(n))
	}
	return nil, fmt.Errorf("answered with the unknown kind %q", kind)
}

func readAnswers(r *bufio.Reader, n int) (answers []any, err error) {
	for range n {
		answer, err := readAnswer(r)
		if inner := refusal(""); errors.As(err, &inner) {
			answer, err = inner, nil // the error of one command among several
		}
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

// must sends a command that has to succeed.
func must(t testing.TB, addr string, command ...string) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := ask(ctx, addr, command...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// agreeLimit is how long servers may take to agree.
const agreeLimit = time.Minute

// await polls until several servers have reached a state.
func await(t testing.TB, what string, look func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), agreeLimit)
	defer cancel()
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			return look(ctx)
		}()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after %v: %v", what, agreeLimit, err)
		case <-time.After(10 * time.Millisecond): // poll: there is no notification
		}
	}
}
