// Package natslock keeps lines of claims in a bucket of NATS JetStream.
package natslock
