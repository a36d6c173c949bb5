// Package zkpath says where in a ZooKeeper the nodes of an engine are, and reads its URL.
package zkpath

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Default is the path when nothing else is configured.
const Default = "/pawl"

// The nodes below the root of an engine: of lines, of records, and of evictions.
const (
	LinesDir     = "/lines"
	RecordsDir   = "/records"
	EvictionsDir = "/desks"
)

// Root returns the node below which everything is.
func Root(path, prefix string) string {
	if prefix != "" {
		path += "/p-" + Encode(prefix)
	}
	return path
}

// Encode makes a node's name of any text. Every byte but letters, digits, - _ and . is
// written as %XX, and so is a leading dot: "." and ".." are no names in ZooKeeper.
func Encode(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Decode is the inverse of Encode; ok is false for a name that Encode never returns.
func Decode(name string) (text string, ok bool) {
	text, err := url.PathUnescape(name)
	return text, err == nil && Encode(text) == name
}

// Check returns the error that ZooKeeper would, before anything is sent.
func Check(path string) error {
	if !strings.HasPrefix(path, "/") || path == "/" {
		return errors.New("is not absolute, or the root itself")
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("has an empty part, or one of dots")
		}
		if strings.ContainsFunc(part, forbidden) {
			return errors.New("has characters that ZooKeeper forbids")
		}
	}
	if path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return errors.New("is ZooKeeper's own")
	}
	return nil
}

func forbidden(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
}
