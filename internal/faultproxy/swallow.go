package faultproxy

// maxRequest is how much of a request is kept for [Matching].
const maxRequest = 64 << 10

// swallow is the fault that SwallowReplies sets.
type swallow struct {
	left   int
	cut    bool
	silent bool
	match  func(request []byte) bool // nil: any
}

// A SwallowOption modifies [Proxy.SwallowReplies].
type SwallowOption func(*swallow)

// ThenCut resets both sides of the connection as soon as its reply is swallowed.
// Without it the connection stays open and the client waits.
func ThenCut() SwallowOption {
	return func(s *swallow) { s.cut = true }
}

// ThenSilent drops everything that follows a swallowed reply on its connection, as if the
// server were gone without notice. A reply of a pipeline that is missing is otherwise a
// gap that no network makes: the client takes the next one for it.
func ThenSilent() SwallowOption {
	return func(s *swallow) { s.silent = true }
}

// Matching swallows only replies to requests that match accepts. match gets
// everything that the client has sent on the connection since the last reply began,
// at most 64 KiB. It may be called until Heal, by one goroutine at a time per
// connection.
func Matching(match func(request []byte) bool) SwallowOption {
	return func(s *swallow) { s.match = match }
}

// SwallowReplies drops the next n replies, counted over all connections, after
// their requests were forwarded: the server has answered and the client does not
// learn what. The answer may be a refusal, such as that the server does
// not have a script. It replaces the effect of an earlier call; 0 disables it.
//
// A reply is everything that the server sends from a request until the next request
// on the same connection. This fits protocols that answer one request at a time.
// Replies to pipelined requests count as one if all of them were sent before the first
// was answered; if a pipeline is longer, or a connection carries many streams, as in
// HTTP/2, add [ThenSilent] or [ThenCut].
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

// lastExchange is the last request and reply of a connection.
type lastExchange struct {
	request []byte // what was forwarded since the reply began; empty: the reply continues
	gone    bool   // the current reply is being swallowed
	silent  bool   // and so is all that follows it
}

// recordRequest records a request just before it is forwarded, so that no reply to
// it can come earlier.
func (l *proxiedConn) recordRequest(data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := max(maxRequest-len(l.exchange.request), 0)
	l.exchange.request = append(l.exchange.request, data[:min(len(data), room)]...)
}

// swallowsReply reports whether a chunk of the server is to be dropped, and whether
// to cut the connection then. Only the reader of that direction calls it.
func (l *proxiedConn) swallowsReply() (gone, cut bool) {
	p := l.proxy
	l.mu.Lock()
	request := l.exchange.request
	l.exchange.request = nil
	gone, silent := l.exchange.gone, l.exchange.silent
	l.mu.Unlock()
	if len(request) == 0 || silent {
		return gone, false
	}

	p.mu.Lock()
	rule := p.swallow
	p.mu.Unlock()
	// match runs without the mutex, because it may call the proxy.
	gone = rule.left > 0 && (rule.match == nil || rule.match(request))
	if gone {
		gone, cut = p.takeSwallow()
	}
	l.mu.Lock()
	l.exchange.gone, l.exchange.silent = gone, gone && rule.silent
	l.mu.Unlock()
	return gone, cut
}

// takeSwallow uses up one of the replies to be swallowed. Another connection may
// have used the last one.
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
