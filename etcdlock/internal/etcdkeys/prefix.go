// Package etcdkeys says where in an etcd the keys of one prefix are.
package etcdkeys

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DefaultPrefix is where keys are kept when nothing else is configured.
const DefaultPrefix = "pawl"

// What follows the prefix in a key.
const (
	LinesDir   = "@line/"
	RecordsDir = "@record/"
)

// Prefix returns what all keys of a prefix begin with, or why it cannot be one. A prefix
// with one of the engine's own words as a segment would lie inside another keyspace.
func Prefix(text string) (string, error) {
	text = strings.Trim(text, "/")
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return "", errors.New("the prefix is not UTF-8 without control characters")
	}
	if within := "/" + text + "/"; strings.Contains(within, "/"+LinesDir) || strings.Contains(within, "/"+RecordsDir) {
		return "", fmt.Errorf("the prefix contains %s or %s, which the engine uses after a prefix",
			LinesDir[:len(LinesDir)-1], RecordsDir[:len(RecordsDir)-1])
	}
	if text != "" {
		text += "/"
	}
	return text, nil
}
