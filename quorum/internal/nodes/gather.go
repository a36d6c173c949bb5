package nodes

import (
	"context"
	"time"
)

// UntilAll makes Gather wait for all answers.
const UntilAll time.Duration = -1

// Gather takes up to n answers. After each one, take returns for how long the rest are
// waited for: [UntilAll], or a time that begins with the first answer that returns one.
// Gather returns nil when all n answers were taken or that time is over, and else ctx's
// error.
func Gather[A any](ctx context.Context, answers <-chan A, n int, take func(A) time.Duration) error {
	var timeout <-chan time.Time
	for range n {
		select {
		case a := <-answers:
			switch wait := take(a); {
			case wait == 0:
				return nil
			case wait > 0 && timeout == nil:
				timer := time.NewTimer(wait)
				defer timer.Stop()
				timeout = timer.C
			}
		case <-timeout:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
