package compare

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// cpuTime returns the processor time of processes and their children, to the
// microsecond if the kernel reports that and in whole ticks otherwise. It lacks
// threads that have ended, so only differences over a period without such threads
// are meaningful.
func cpuTime(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		for _, one := range append(children(pid), pid) {
			sum += schedulerTime(one)
		}
	}
	return sum
}

// schedulerTime adds up what the scheduler has counted for each thread.
func schedulerTime(pid int) (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range threads {
		data, err := os.ReadFile(file)
		fields := bytes.Fields(data)
		if err != nil || len(fields) == 0 {
			continue // ended meanwhile
		}
		n, _ := strconv.ParseInt(string(fields[0]), 10, 64)
		sum += time.Duration(n)
	}
	if len(threads) == 0 {
		return ticks(pid)
	}
	return sum
}

// children returns the child processes of a server; PostgreSQL has one per
// connection.
func children(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // one list per thread
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for _, field := range bytes.Fields(data) {
			if id, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, id)
			}
		}
	}
	return pids
}

// canTick reports whether ticks works on this system.
func canTick() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// ticks returns the processor time of one process, in whole ticks.
func ticks(pid int) time.Duration { return fieldsOf(pid, 11, 12) }

// endedChildrenTime returns the processor time of a process's ended children.
func endedChildrenTime(pid int) time.Duration { return fieldsOf(pid, 13, 14) }

// fieldsOf adds up fields of a process's stat, numbered after its name, which may
// contain anything and ends with the last parenthesis.
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

// tick is the unit in which the kernel reports processor time.
const tick = time.Second / 100
