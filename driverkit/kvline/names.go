package kvline

import (
	"fmt"
	"strconv"
	"strings"
)

// Keys begin with what they are for. A name is one token of a subject: everything but
// letters, digits, / - and _ is written as = and two hexadecimal digits.
const (
	linePrefix   = "line."
	recordPrefix = "record."
)

func encode(name string) string {
	b := make([]byte, 0, 3*len(name))
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '/', c == '-', c == '_':
			b = append(b, c)
		default:
			b = fmt.Appendf(b, "=%02X", c)
		}
	}
	return string(b)
}

// decode is the inverse of encode. ok is false for a key that encode never returns.
func decode(key string) (name string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(key); i++ {
		if key[i] != '=' {
			b.WriteByte(key[i])
			continue
		}
		c, err := strconv.ParseUint(key[min(i+1, len(key)):min(i+3, len(key))], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), encode(b.String()) == key
}
