package etcdlock

import (
	"encoding/json"
	"time"

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
	value, _ := json.Marshal(claimValue{ // never fails on strings and numbers
		ID: c.ID, Try: c.Try, Session: session, Note: c.Note, Need: c.Need, Limit: c.Limit, Queue: c.Queue, At: time.Now().UnixMilli(),
	})
	return string(value)
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
