package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/claimview"
	"github.com/pawl-go/pawl/driver"
)

// audit prints who broke a lock, in one line of fields that a program can read.
func (a *app) audit(who string, e driver.Entry) {
	a.show("%s%s broke=%q token=%d id=%s holder=%q\n", auditStart(), who, e.Name, e.Fence<<8, auditWord(e.ID), e.Note)
}

// auditStart returns the fields that every audit line begins with.
func auditStart() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("pawl: audit: time=%s by=%s@%s pid=%d", time.Now().UTC().Format(time.RFC3339), userName(), host, os.Getpid())
}

// auditWord quotes a text so that it cannot be mistaken for another field of the
// line.
func auditWord(s string) string {
	if s == "" || strings.ContainsAny(s, " \"=") || claimview.HasHidden(s) {
		return strconv.Quote(s)
	}
	return s
}
