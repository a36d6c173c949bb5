package compare

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// otherLoad measures the load of unrelated programs. It supports only Linux;
// elsewhere it reports none.
type otherLoad struct {
	pids []int // of the servers; this program is added
	last usage
}

// A usage is processor time since boot.
type usage struct {
	known      bool
	busy, idle time.Duration // of all processors
	ours       time.Duration
}

func (o *otherLoad) start() { o.last = o.read() }

// share returns the fraction of all processor time since start that other programs
// used, or other machines on the same hardware.
func (o *otherLoad) share() float64 { return o.read().since(o.last) }

func (u usage) since(last usage) float64 {
	total := u.busy + u.idle - last.busy - last.idle
	if !u.known || !last.known || total == 0 {
		return 0
	}
	theirs := u.busy - last.busy - (u.ours - last.ours)
	return max(float64(theirs)/float64(total), 0)
}

func (o *otherLoad) read() (u usage) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	// cpu, then user, nice, system, idle, iowait, irq, softirq, steal; guests are
	// in user.
	for i, field := range bytes.Fields(line) {
		n, _ := strconv.Atoi(string(field))
		switch {
		case i == 4, i == 5:
			u.idle += time.Duration(n) * tick
		case i > 0 && i < 9:
			u.busy += time.Duration(n) * tick
		}
	}
	u.known = u.idle > 0
	for pid := range o.ourProcesses() {
		u.ours += ticks(pid) + endedChildrenTime(pid) // including ended processes of connections
	}
	return u
}

// ourProcesses returns this program, its children, the servers and their children,
// each once.
func (o *otherLoad) ourProcesses() map[int]bool {
	all := map[int]bool{}
	for _, pid := range append(append(children(os.Getpid()), o.pids...), os.Getpid()) {
		all[pid] = true
		for _, child := range children(pid) {
			all[child] = true
		}
	}
	return all
}

// serverTime returns the processor time of a server and its children.
func serverTime(pid int) time.Duration {
	sum := ticks(pid)
	for _, child := range children(pid) {
		sum += ticks(child)
	}
	return sum
}
