package driver_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/pawl-go/pawl/driver"
)

func TestADialerIsFoundInTheContextItWasPutInto(t *testing.T) {
	t.Parallel()
	if driver.DialerOf(t.Context()) != nil {
		t.Error("there is a dialer in a context without one")
	}
	mine := errors.New("mine")
	ctx := driver.WithDialer(t.Context(), func(context.Context, string, string) (net.Conn, error) { return nil, mine })
	if _, err := driver.DialerOf(ctx)(ctx, "tcp", "a:1"); !errors.Is(err, mine) {
		t.Errorf("another dialer answered: %v", err)
	}
	if driver.DialerOf(driver.WithDialer(ctx, nil)) != nil {
		t.Error("nil does not stand for the operating system's own")
	}
}
