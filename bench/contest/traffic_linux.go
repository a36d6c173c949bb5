package contest

import (
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// traffic returns how many bytes this program has sent to one of the addresses and
// received from it, over the connections that are open now. The kernel counts them
// anyway; a proxy in between would use the processor time that is to be measured.
func traffic(addrs ...string) (bytes int, known bool) {
	ports := map[int]bool{}
	for _, addr := range addrs {
		if a, err := netip.ParseAddrPort(addr); err == nil {
			ports[int(a.Port())] = true
		}
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, false
	}
	for _, file := range files {
		fd, err := strconv.Atoi(file.Name())
		if err != nil || !ports[peer(fd)] {
			continue
		}
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			bytes += int(info.Bytes_acked + info.Bytes_received)
		}
	}
	return bytes, true
}

// peer returns the port that a connection leads to; 0 for any other file.
func peer(fd int) int {
	addr, err := unix.Getpeername(fd)
	if err != nil {
		return 0
	}
	switch a := addr.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}
