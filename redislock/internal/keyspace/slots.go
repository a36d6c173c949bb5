package keyspace

import (
	"strconv"
	"strings"
	"sync"
)

// slots is the number of slots of a cluster.
const slots = 1 << 14

// tags has one hash tag for every slot: the smallest number that hashes to it, so
// that all processes agree.
var tags = sync.OnceValue(func() *[slots]string {
	var all [slots]string
	for n, left := 0, slots; left > 0; n++ {
		text := strconv.Itoa(n)
		if s := crc16(text) % slots; all[s] == "" {
			all[s] = "{" + text + "}"
			left--
		}
	}
	return &all
})

// slot returns the cluster's slot of a key.
func slot(key string) int { return int(crc16(hashed(key)) % slots) }

// hashed returns the part of a key that its slot is computed from.
func hashed(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// crc16 is the checksum of Redis Cluster: polynomial 0x1021, initial value 0, most
// significant bit first.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return crc
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if carry := crc&0x8000 != 0; carry {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
