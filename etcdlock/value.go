package etcdlock

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/pawl-go/pawl/driver"
)

// A claimValue is the value of a claim's key, as JSON: what the key does not contain.
type claimValue struct {
	ID      string `json:"id"`
	Try     int    `json:"try"`
	Session string `json:"session"`
	Note    string `json:"note"`
	Need    int    `json:"need"` // of an exclusive claim too, whose key is the same for all limits
	Limit   int    `json:"limit"`
	Queue   bool   `json:"queue"`
	At      int64  `json:"at"` // when it entered, in ms of its client's wall clock; only for List
}

// encodeValue returns the value of a claim. The session keeps these bytes: while the
// key has the same value, it is still this claim's.
func encodeValue(c driver.Claim, session string) string {
	b := make([]byte, 0, 256)
	b = appendJSON(append(b, `{"id":`...), c.ID)
	b = strconv.AppendInt(append(b, `,"try":`...), int64(c.Try), 10)
	b = appendJSON(append(b, `,"session":`...), session)
	b = appendJSON(append(b, `,"note":`...), c.Note)
	b = strconv.AppendInt(append(b, `,"need":`...), int64(c.Need), 10)
	b = strconv.AppendInt(append(b, `,"limit":`...), int64(c.Limit), 10)
	b = strconv.AppendBool(append(b, `,"queue":`...), c.Queue)
	b = strconv.AppendInt(append(b, `,"at":`...), time.Now().UnixMilli(), 10)
	return string(append(b, '}'))
}

// appendJSON appends a string as JSON. Nearly all strings have nothing to escape, and a
// value is made for every claim.
func appendJSON(b []byte, s string) []byte {
	plain := func(r rune) bool { return r >= ' ' && r < utf8.RuneSelf && r != '"' && r != '\\' }
	if !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return append(append(append(b, '"'), s...), '"')
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be marshalled
	}
	return append(b, text...)
}

// entry reads one claim in the line of name. Held and Fence are left to the caller.
func (l lineKeys) entry(name string, kv *mvccpb.KeyValue) (driver.Entry, error) {
	if _, err := l.parse(kv); err != nil {
		return driver.Entry{}, err
	}
	var v claimValue
	if err := json.Unmarshal(kv.Value, &v); err != nil || v.ID == "" || v.Limit <= 0 || v.Need <= 0 {
		return driver.Entry{}, &errForeign{string(kv.Key)}
	}
	return driver.Entry{
		Claim:   driver.Claim{ID: v.ID, Try: v.Try, Name: name, Need: v.Need, Limit: v.Limit, Queue: v.Queue, Note: v.Note},
		Session: v.Session,
		Since:   max(0, time.Since(time.UnixMilli(v.At))),
	}, nil
}
