package contest

import (
	"os"
	"time"
)

// A meter counts the processor time of this program and of servers, where the
// system tells it.
type meter struct {
	servers        []int // by process id
	client, server time.Duration
}

// meterUnits are the units of its figures.
func meterUnits() []Unit {
	if !canTick() {
		return nil
	}
	return []Unit{{Name: "client-µs/lock", Fewer: true}, {Name: "server-µs/lock", Fewer: true}}
}

func startMeter(servers []int) meter {
	m := meter{servers: servers}
	m.client, m.server = m.read()
	return m
}

func (m meter) read() (client, server time.Duration) {
	for _, pid := range m.servers {
		server += family(pid)
	}
	return ticks(os.Getpid()), server
}

// figures are what was used since the start, for each lock.
func (m meter) figures(locks int) []float64 {
	if !canTick() {
		return nil
	}
	client, server := m.read()
	per := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(locks) }
	return []float64{per(client - m.client), per(server - m.server)}
}
