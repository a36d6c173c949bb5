package driver

import "context"

// AfterCancel is context.AfterFunc for an engine that keeps to the deadline of
// ctx by itself, as by the deadline of a connection: it need not be told of that
// end, which makes the contexts that the core passes cheaper. f may be called
// twice.
func AfterCancel(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(interface {
		AfterCancel(f func()) (stop func() bool)
	}); ok {
		return c.AfterCancel(f)
	}
	return context.AfterFunc(ctx, f)
}
