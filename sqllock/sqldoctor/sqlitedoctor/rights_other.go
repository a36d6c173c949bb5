//go:build !unix

package sqlitedoctor

import (
	"context"

	"github.com/pawl-go/pawl/doctor"
	"github.com/pawl-go/pawl/sqllock/sqldoctor/internal/sqlexam"
)

// rights are not modes and owners here.
func rights(context.Context, *file) (doctor.Finding, error) {
	return doctor.Finding{}, sqlexam.ErrSkip
}
