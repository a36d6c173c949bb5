package natslock

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Codes of the server's errors.
const (
	notClustered    = 10074 // it has no room for replicas
	noPeers         = 10005 // servers that the bucket's replicas need are down, or there are none
	storeFailed     = 10077 // the bucket is full, or the disk is
	accountExceeded = 10002
	memoryExceeded  = 10028
	diskExceeded    = 10047

	tooManyRequests = 429 // in place of such a code: its queue is full at the moment
)

// isPermanent reports whether the server refused a request for a reason that stays.
func isPermanent(err error) bool {
	refusal, ok := errors.AsType[*jetstream.APIError](err)
	return ok && !isBusy(err) && refusal.ErrorCode != noPeers && (refusal.Code < 500 || refusal.ErrorCode == notClustered)
}

// isBusy reports whether the server refused a request because it has too many.
func isBusy(err error) bool {
	refusal, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refusal.Code == tooManyRequests
}

// isFull reports whether the server refused a write because there is no room for it.
func isFull(err error) bool {
	refusal, ok := errors.AsType[*jetstream.APIError](err)
	if !ok {
		return false
	}
	switch refusal.ErrorCode {
	case storeFailed, accountExceeded, memoryExceeded, diskExceeded:
		return true
	}
	return false
}
