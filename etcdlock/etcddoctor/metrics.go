package etcddoctor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/doctor"
)

// metrics are a member's numbers, by name and labels as the page has them.
type metrics map[string]float64

// maxMetrics is far above the size of the page.
const maxMetrics = 8 << 20

// readMetrics reads the page.
func (m *member) readMetrics(ctx context.Context) (metrics, error) {
	response, err := m.fetch(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return parseMetrics(io.LimitReader(response.Body, maxMetrics))
}

// noMetrics is the finding in place of the checks that need them.
func (m *member) noMetrics() doctor.Finding {
	return doctor.Warn("metrics", fmt.Sprintf("cannot read /metrics: %v", m.metricsErr),
		"Leader changes, the disk and the clock of this member were not examined.",
		"remove --listen-client-http-urls from the member's command line")
}

// untold is the finding of a check whose metric the page does not have.
func (m *member) untold(check, metric, meaning string) doctor.Finding {
	return doctor.Warn(check, "not measured: /metrics has no "+metric, meaning, "curl "+m.endpoint+"/metrics")
}

// parseMetrics reads lines of "name{labels} value". It is an error if there are none of etcd's.
func parseMetrics(r io.Reader) (metrics, error) {
	all := metrics{}
	ours := false
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if value, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			all[line[:i]] = value
			ours = ours || strings.HasPrefix(line, "etcd_server_")
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !ours {
		return nil, fmt.Errorf("the page has no metrics of etcd")
	}
	return all, nil
}
