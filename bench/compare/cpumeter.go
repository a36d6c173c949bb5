package compare

import (
	"os"
	"time"
)

// A cpuMeter measures the processor time of this program and of servers, where the
// system reports it.
type cpuMeter struct {
	servers        []int // by process id
	client, server time.Duration
}

// cpuUnits are the units of its figures.
func cpuUnits() []Unit {
	if !canTick() {
		return nil
	}
	return []Unit{{Name: "client-µs/lock", Fewer: true}, {Name: "server-µs/lock", Fewer: true}}
}

func startCPUMeter(servers []int) cpuMeter {
	m := cpuMeter{servers: servers}
	m.client, m.server = m.read()
	return m
}

func (m cpuMeter) read() (client, server time.Duration) {
	for _, pid := range m.servers {
		server += serverTime(pid)
	}
	return ticks(os.Getpid()), server
}

// figures returns the processor time since the start, per lock.
func (m cpuMeter) figures(locks int) []float64 {
	if !canTick() {
		return nil
	}
	client, server := m.read()
	per := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(locks) }
	return []float64{per(client - m.client), per(server - m.server)}
}
