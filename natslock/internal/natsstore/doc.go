// Package natsstore connects to servers of NATS as a URL says, and knows what a bucket that
// keeps locks has to be.
package natsstore
