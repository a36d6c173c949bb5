package planted

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-go/pawl/internal/faultdial"
	"github.com/pawl-go/pawl/internal/history"
)

// faultsFor brings faults to the clients for a time d: to two of them at a time, and to
// the others none, so that there are rivals.
func (l *load) faultsFor(d time.Duration) {
	var work sync.WaitGroup
	for i := range 2 {
		work.Go(func() { l.faultsTo(d, i) })
	}
	work.Wait()
}

// faultsTo brings faults to every second client, one at a time, and kills one of them.
func (l *load) faultsTo(d time.Duration, odd int) {
	begun, killed := time.Now(), false
	for time.Since(begun) < d {
		c := l.target(odd)
		if !killed && time.Since(begun) > d/3 {
			killed = true
			l.kill(c)
			l.start()
			continue
		}
		l.fault(c)
		time.Sleep(rand.N(loadTTL / 4))
	}
}

// target returns one of the odd or even clients that was not killed, if possible one that
// holds for long: a fault of a client that holds nothing shows little.
func (l *load) target(odd int) (c *loadClient) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for tries := 0; c == nil || tries < 10 && c.long == 0; tries++ {
		if one := l.clients[rand.IntN(len(l.clients))]; !one.killed && one.number%2 == odd {
			c = one
		}
	}
	return c
}

// fault brings one fault to a client and ends it.
func (l *load) fault(c *loadClient) {
	f := history.Fault{Client: c.number, From: l.now()}
	length := loadTTL/4 + rand.N(2*loadTTL)
	switch rand.IntN(6) {
	case 0:
		f.Kind = "cut"
		c.link.Cut(faultdial.Both)
	case 1:
		f.Kind = "requests cut"
		c.link.Cut(faultdial.Requests)
	case 2:
		f.Kind = "replies cut"
		c.link.Cut(faultdial.Replies)
	case 3:
		f.Kind = "delay"
		c.link.Delay(rand.N(loadTTL / 10))
	case 4:
		f.Kind = "reply swallowed"
		c.link.SwallowReply()
	case 5:
		f.Kind, length = "reset", 0
		c.link.Reset()
	}
	time.Sleep(length)
	c.link.Heal()
	f.To = l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.h.Faults = append(l.h.Faults, f)
}

// kill cuts a client off for good; what it did last has no end in the history.
func (l *load) kill(c *loadClient) {
	l.mu.Lock()
	c.killed = true
	l.h.Faults = append(l.h.Faults, history.Fault{Client: c.number, Kind: history.Kill, From: l.now(), To: l.now()})
	l.mu.Unlock()
	c.link.Cut(faultdial.Both)
	c.link.Reset()
}
