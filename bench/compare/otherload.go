package contest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// others tells how busy programs that do not belong to the contest keep the machine.
// It knows only Linux; elsewhere nothing is known, and nothing is disturbed.
type others struct {
	pids []int // of the servers; this program is added
	last usage
}

// A usage is processor time since the start.
type usage struct {
	known      bool
	busy, idle time.Duration // of all processors
	ours       time.Duration
}

// tick is what the kernel counts processor time in, for programs to read.
const tick = time.Second / 100

func (o *others) start() { o.last = o.read() }

// share returns which part of all processor time since start was used by others, or
// by other machines on the same hardware.
func (o *others) share() float64 { return o.read().since(o.last) }

func (u usage) since(last usage) float64 {
	total := u.busy + u.idle - last.busy - last.idle
	if !u.known || !last.known || total == 0 {
		return 0
	}
	theirs := u.busy - last.busy - (u.ours - last.ours)
	return max(float64(theirs)/float64(total), 0)
}

func (o *others) read() (u usage) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	// cpu, then user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
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
	for pid := range o.company() {
		u.ours += ticks(pid) + reaped(pid) // also of a connection's process that has ended
	}
	return u
}

// company is this program, what it has started, the servers, and what those have
// started, each once.
func (o *others) company() map[int]bool {
	all := map[int]bool{}
	for _, pid := range append(append(children(os.Getpid()), o.pids...), os.Getpid()) {
		all[pid] = true
		for _, child := range children(pid) {
			all[child] = true
		}
	}
	return all
}

// family returns the processor time of a server and of its children.
func family(pid int) time.Duration {
	sum := ticks(pid)
	for _, child := range children(pid) {
		sum += ticks(child)
	}
	return sum
}

// canTick reports whether ticks knows anything here.
func canTick() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// ticks returns the processor time of one process, in whole ticks.
func ticks(pid int) time.Duration { return fieldsOf(pid, 11, 12) }

// reaped returns the processor time of a process's children that have ended.
func reaped(pid int) time.Duration { return fieldsOf(pid, 13, 14) }

// fieldsOf adds up fields of a process's stat, as they are numbered after its name,
// which may contain anything and ends with the last bracket.
func fieldsOf(pid int, numbers ...int) (sum time.Duration) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	for _, i := range numbers {
		if i < len(fields) {
			n, _ := strconv.Atoi(string(fields[i]))
			sum += time.Duration(n) * tick
		}
	}
	return sum
}
