package mysql

import (
	_ "embed"
	"errors"
	"regexp"
	"strings"
	"sync"
)

var (
	//go:embed schema.sql
	schemaSQL string
	//go:embed fence_row.sql
	fenceRowSQL string
)

const schemaVersion = 1

// tables are their names, as they stand in statements.
type tables struct {
	shown                     string // for messages
	meta, head, claim, record string
}

// tablePrefix is compiled when it is first needed, so that commands that use another
// store start faster.
var tablePrefix = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,47}\.)?[A-Za-z_][A-Za-z0-9_]{0,47}$`)
})

func tablesOf(prefix string) (tables, error) {
	if !tablePrefix().MatchString(prefix) {
		return tables{}, errors.New("mysql: table_prefix must be up to 48 letters, digits and _ that do not begin with a digit, and a database and a dot before them if need be")
	}
	return tables{
		shown: prefix + "*",
		meta:  prefix + "meta", head: prefix + "head", claim: prefix + "claim", record: prefix + "record",
	}, nil
}

// ofEngine stands before the name of a table in statements, and is replaced by the
// database that the engine found at its first use: an application may have left a
// connection in another one.
const ofEngine = "\x00"

// inStatement returns a table's name as it stands in statements.
func (t *tables) inStatement(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return ofEngine + name
}

// qualify names the database in a statement; "": whichever the connection is in.
func qualify(text, database string) string {
	if database != "" {
		database = "`" + strings.ReplaceAll(database, "`", "``") + "`."
	}
	return strings.ReplaceAll(text, ofEngine, database)
}

// schema returns the statements that make the tables, for users to run.
func (t *tables) schema() string {
	return strings.ReplaceAll(t.expand(schemaSQL+"\n"+fenceRowSQL), ofEngine, "")
}

// expand replaces {head} and the like by the names of the tables.
func (t *tables) expand(text string) string {
	for macro, name := range map[string]string{"{meta}": t.meta, "{head}": t.head, "{claim}": t.claim, "{record}": t.record} {
		text = strings.ReplaceAll(text, macro, t.inStatement(name))
	}
	return text
}

func splitStatements(script string) (all []string) {
	for text := range strings.SplitSeq(script, ";\n") {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, text)
		}
	}
	return all
}
