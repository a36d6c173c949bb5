package sqlline

import (
	"embed"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/sqllock/internal/sqlstore"
)

// The statements, one a file; each says at its top what it does, what it takes and what
// it returns.
//
//go:embed sql/*.sql
var files embed.FS

// statements are the shared statements in the syntax of one dialect. A field is named
// after its file: TakeFree is sql/take_free.sql.
type statements struct {
	// One statement each: taking and releasing a free name.
	TakeFree, TakeKnown, Unlock, GrantNext, AppendClaim *sqlstore.Statement

	// The batches that change a line.
	MakeHead, LockHead, ExpireHold, ExpireClaims       *sqlstore.Statement
	ReleaseHold, DeleteClaim                           *sqlstore.Statement
	LeavingClaims, DeleteClaims                        *sqlstore.Statement
	CountDepartures, ProlongClaim, JoinLine            *sqlstore.Statement
	RaiseFence, LockFront, Promote, DeletePromoted     *sqlstore.Statement
	AdmitShared, Recount, Standing, RequireClaim       *sqlstore.Statement
	EvictHold, EvictClaim, ReapHold, ReapClaims        *sqlstore.Statement
	BeatHold, BeatClaim, FindClaim                     *sqlstore.Statement
	BeatHolds, BeatClaims, BeatHoldWait, BeatClaimWait *sqlstore.Statement

	// What waiters, watchers and operators read.
	LineExpiry, HeadState, Departures, OwnerWaiting                  *sqlstore.Statement
	FirstOwner, OwnerFirst                                           *sqlstore.Statement
	OwnerBlockers, LineBlockers, OwnedNames, OwnerRows, StalledLines *sqlstore.Statement
	List, Line, LoadRecord, RecordVersion, StoreRecord, CreateRecord *sqlstore.Statement
	DeleteRecord, IdleHeads, LockSweep, SaveFence, DeleteHead        *sqlstore.Statement
	EndedRecords, DeleteEndedRecord, DeleteHeads, DeleteEndedRecords *sqlstore.Statement
	SweepLeft, SweepTurn                                             *sqlstore.Statement

	// In transactions of the user's.
	GuardHold, GuardClaim, SeeHold, SeeClaim, TouchHold             *sqlstore.Statement
	OnceRow, OnceLock, OnceFind, OnceBegin, OnceCurrent, OnceFinish *sqlstore.Statement
	OnceErase                                                       *sqlstore.Statement
}

// fallback names the statement that a dialect without one of its own uses.
var fallback = map[string]string{"unlock": "release_hold", "create_record": "store_record"}

// fallbackShared is the same for dialects that replaced the other statement for another
// purpose: they use the shared text of it.
var fallbackShared = map[string]string{"beat_claim_wait": "beat_claim", "beat_hold_wait": "beat_hold"}

// compile translates all statements.
func compile(d *Dialect) (*statements, error) {
	var s statements
	fields := reflect.ValueOf(&s).Elem()
	for i := range fields.NumField() {
		name := fileName(fields.Type().Field(i).Name)
		text, err := textOf(d, name)
		if err != nil {
			return nil, fmt.Errorf("sqllock: statement %s: %w", name, err)
		}
		q, err := d.Translate(text)
		if err != nil {
			return nil, fmt.Errorf("sqllock: statement %s: %w", name, err)
		}
		q.Name = name
		fields.Field(i).Set(reflect.ValueOf(q))
	}
	return &s, nil
}

// fileName returns a field's name in lower case with underscores.
func fileName(field string) string {
	var b strings.Builder
	for i, r := range field {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}

// textOf returns the dialect's own text of a statement, or the shared one.
func textOf(d *Dialect, name string) (string, error) {
	if slices.Contains(d.Without, name) {
		return "", nil
	}
	if b, err := d.Files.ReadFile("sql/" + name + ".sql"); err == nil {
		return string(b), nil
	}
	if other, ok := fallback[name]; ok {
		return textOf(d, other)
	}
	if other, ok := fallbackShared[name]; ok {
		name = other
	}
	b, err := files.ReadFile("sql/" + name + ".sql")
	return string(b), err
}
