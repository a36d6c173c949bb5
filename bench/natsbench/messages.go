package natsbench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// messages counts what clients publish: writes, reads and notices.
type messages struct {
	monitor int // the port
	before  int
}

func (m *messages) Start(ctx context.Context) (err error) {
	m.before, err = m.read(ctx)
	return err
}

func (m *messages) Stop(ctx context.Context) (int, error) {
	now, err := m.read(ctx)
	return now - m.before, err
}

func (m *messages) read(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/varz", m.monitor), nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var server struct {
		Published int `json:"in_msgs"`
	}
	err = json.NewDecoder(response.Body).Decode(&server)
	return server.Published, err
}
