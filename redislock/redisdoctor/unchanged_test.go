package redisdoctor_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/doctortest"
	"github.com/pawl-go/pawl/internal/faultproxy"
	"github.com/pawl-go/pawl/internal/testserver"
)

// state returns all keys with their values and expiries, all settings, and the number of
// changes that the server has counted.
func (c *console) state() map[string]string {
	c.t.Helper()
	all := map[string]string{}
	do := func(words ...string) any {
		v, err := c.c.Do(context.Background(), c.c.B().Arbitrary(words...).Build()).ToAny()
		if err != nil {
			c.t.Fatal(err)
		}
		return v
	}
	keys, _ := do("KEYS", "*").([]any)
	for _, k := range keys {
		all["key "+k.(string)] = fmt.Sprintf("%q %v", do("DUMP", k.(string)), do("PEXPIRETIME", k.(string)))
	}
	for name, value := range do("CONFIG", "GET", "*").(map[string]any) {
		all["setting "+name] = fmt.Sprint(value)
	}
	for line := range strings.Lines(c.do("INFO")) {
		for _, name := range []string{"rdb_changes_since_last_save:", "master_repl_offset:", "aof_current_size:"} {
			if strings.HasPrefix(line, name) {
				all[name] = strings.TrimSpace(line)
			}
		}
	}
	all["users"] = fmt.Sprint(do("ACL", "LIST"))
	return all
}

func TestAnExaminationChangesNothing(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, durable...)
	at := newConsole(t, s.Addr())
	at.do("SET", "pawl:name", "p1 x", "PX", "3600000")
	at.do("SET", "other", "value")
	at.do("HSET", "pawl:\x01hname", "f", "v")
	before := at.state()
	for _, query := range []string{"", "?wait=1", "?scripts=never", "?prefix=other"} {
		doctortest.Examine(t, "redis://"+s.Addr()+query)
	}
	if after := at.state(); len(before) < 100 || !maps.Equal(before, after) {
		for k, v := range after {
			if before[k] != v {
				t.Errorf("%s: %s became %s", k, before[k], v)
			}
		}
		t.Errorf("%d entries, then %d", len(before), len(after))
	}
}

func TestAStoreThatCannotBeReachedIsAnError(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, "--requirepass", "right")
	hung := faultproxy.New(t, s.Addr())
	hung.BlackHole(faultproxy.Both)
	for store, is := range map[string]error{
		"redis://:secret@127.0.0.1:1":                         driver.ErrUnreachable,
		"redis-sentinel://:secret@127.0.0.1:1,127.0.0.1:2/m":  driver.ErrUnreachable,
		"redis-cluster://:secret@127.0.0.1:1":                 driver.ErrUnreachable,
		"redis://:secret@" + hung.Addr():                      driver.ErrUnreachable,
		"redis://:secret@" + s.Addr():                         driver.ErrDenied,
		"redis-cluster://:secret@" + s.Addr():                 driver.ErrDenied,
		"redis://:secret@" + s.Addr() + "?colour=red":         driver.ErrURL,
		"redis-sentinel://:secret@" + s.Addr():                driver.ErrURL,
		"redis://:secret@" + s.Addr() + "," + hung.Addr():     driver.ErrURL,
		"redis-sentinel://:secret@" + s.Addr() + "/m?wait=-1": driver.ErrURL,
	} {
		found, err := doctor.Examine(t.Context(), store)
		if !errors.Is(err, is) {
			t.Errorf("%s: %v, %v; want %v", store, found, err, is)
		} else if text := err.Error(); strings.Contains(text, "secret") || strings.Contains(text, "\n") {
			t.Errorf("%s: %v", store, err)
		}
	}
}
