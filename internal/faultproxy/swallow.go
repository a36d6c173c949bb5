package faultproxy

// maxRequest is how much of a request is kept for [Matching].
const maxRequest = 64 << 10

// swallow is what SwallowReplies asked for.
type swallow struct {
	left  int
	cut   bool
	match func(request []byte) bool // nil: any
}

// A SwallowOption changes what [Proxy.SwallowReplies] does.
type SwallowOption func(*swallow)

// ThenCut resets the connection, both sides of it, as soon as its reply is
// swallowed. Without it the connection stays open and the client waits.
func ThenCut() SwallowOption {
	return func(s *swallow) { s.cut = true }
}

// Matching swallows only replies to requests that match accepts. It is given all
// that the client sent on the connection since the last reply began, at most its
// first 64 KiB. It may be called at any time until Heal, one call at a time per
// connection.
func Matching(match func(request []byte) bool) SwallowOption {
	return func(s *swallow) { s.match = match }
}

// SwallowReplies lets the next n replies, counted over all connections, vanish
// after their requests were forwarded: the server has done the work and the
// client is not told. It replaces what an earlier call asked for; 0 ends the fault.
//
// A reply is all that the server sends from a request until the next request on
// the same connection. This fits protocols that answer one request at a time.
// Where requests are pipelined in one go their replies count as one, and where a
// connection carries many streams, as in HTTP/2, a stream that goes on after a
// gap is of no use to the client: add [ThenCut] there.
func (p *Proxy) SwallowReplies(n int, options ...SwallowOption) {
	if n < 0 {
		panic("faultproxy: negative number of replies")
	}
	s := swallow{left: n}
	for _, o := range options {
		o(&s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow = s
}

// An exchange is the last request and reply on one connection.
type lastExchange struct {
	request []byte // what was forwarded since the reply began; empty: the reply goes on
	gone    bool   // the present reply is swallowed
}

// asked notes a request just before it is forwarded, so that no reply to it can
// be seen first.
func (l *proxiedConn) recordRequest(data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := max(maxRequest-len(l.exchange.request), 0)
	l.exchange.request = append(l.exchange.request, data[:min(len(data), room)]...)
}

// swallows reports whether a chunk the server sent is to vanish, and whether the
// connection is to be cut then. Only the reader of that direction calls it.
func (l *proxiedConn) swallowsReply() (gone, cut bool) {
	p := l.proxy
	l.mu.Lock()
	request := l.exchange.request
	l.exchange.request = nil
	gone = l.exchange.gone
	l.mu.Unlock()
	if len(request) == 0 {
		return gone, false
	}

	p.mu.Lock()
	rule := p.swallow
	p.mu.Unlock()
	// The caller's function runs without the mutex: it may call the proxy.
	gone = rule.left > 0 && (rule.match == nil || rule.match(request))
	if gone {
		gone, cut = p.takeSwallow()
	}
	l.mu.Lock()
	l.exchange.gone = gone
	l.mu.Unlock()
	return gone, cut
}

// takeSwallow uses up one of the replies to be swallowed, if one is left: another
// connection may have come first.
func (p *Proxy) takeSwallow() (taken, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.swallow.left == 0 {
		return false, false
	}
	p.swallow.left--
	p.swallowed++
	return true, p.swallow.cut
}
