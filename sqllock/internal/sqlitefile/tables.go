package sqlitefile

import (
	"errors"
	"fmt"
)

// Version is that of the tables that this program knows.
const Version = 1

// ErrNoTables is the error of a read-only look at a file in which nothing was ever locked.
var ErrNoTables = errors.New("sqlite: the file has no tables of pawl's: nothing was ever locked in it")

// A VersionError refuses tables of a version that this program does not know.
type VersionError int64

// Error returns the text.
func (v VersionError) Error() string {
	return fmt.Sprintf("sqlite: the file's tables are of version %d, this program knows version %d: use the program that made them, or a newer one", int64(v), Version)
}
