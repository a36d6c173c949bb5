package contest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// spent returns the processor time of processes and their children, to the
// microsecond where the kernel tells it and in whole ticks elsewhere. Threads that
// have ended are not in it, so only a difference over a while without such says much.
func spent(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		for _, one := range append(children(pid), pid) {
			sum += precise(one)
		}
	}
	return sum
}

// precise adds up what the scheduler has counted for each thread.
func precise(pid int) (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range threads {
		data, err := os.ReadFile(file)
		fields := bytes.Fields(data)
		if err != nil || len(fields) == 0 {
			continue // it has ended meanwhile
		}
		n, _ := strconv.ParseInt(string(fields[0]), 10, 64)
		sum += time.Duration(n)
	}
	if len(threads) == 0 {
		return ticks(pid)
	}
	return sum
}

// children returns the processes that a server has started, as PostgreSQL has one for
// each connection.
func children(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // each thread has its own
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
