package natsdoctor

import (
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/testserver"
)

func TestAServerIsExaminedOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := testserver.Certificate(t, t.TempDir(), "server", "127.0.0.1")
	server := testserver.NATS(t, fmt.Sprintf("tls { cert_file: %q, key_file: %q }", cert, key))
	store := storeOf(server.Addr()) + "?tls=yes&tls-ca=" + url.QueryEscape(cert)
	doctortest.CleanButTimes(t, examined(t, monitored(server), store), "cluster", "sync interval")
	if _, err := doctor.Examine(t.Context(), storeOf(server.Addr())+"?tls=yes"); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("an unknown authority: %v", err)
	}
}
