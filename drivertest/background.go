package drivertest

// A backgroundCall runs on a goroutine of its own. The teardown of the case waits
// for it.
type backgroundCall struct {
	f    *fixture
	done chan struct{} // closed by the goroutine
	err  error
}

func (f *fixture) inBackground(run func() error) *backgroundCall {
	call := &backgroundCall{f: f, done: make(chan struct{})}
	f.goroutines.Go(func() {
		defer close(call.done)
		call.err = run()
	})
	return call
}

// wait fails the case if the call returned an error or is still running when the
// case's ctx ends.
func (call *backgroundCall) wait(what string) {
	call.f.Helper()
	select {
	case <-call.done:
	case <-call.f.ctx.Done():
		call.f.Fatalf("%s: still not done when the case had to end", what)
	}
	if call.err != nil {
		call.f.Fatalf("%s: %v", what, call.err)
	}
}
