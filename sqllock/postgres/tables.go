package postgres

import (
	_ "embed"
	"errors"
	"hash/fnv"
	"regexp"
	"strings"
	"sync"
)

//go:embed schema.sql
var schemaSQL string

const schemaVersion = 1

// What stands in statements for what is known only when the server has answered.
const (
	schemaMark  = "\x01" // before a table's name: its schema, so that another search_path does not matter
	durableMark = "\x02" // a condition that is true: the commit waits for the disk
)

// tables are their names.
type tables struct {
	shown                     string // for messages
	meta, head, claim, record string
	channel                   string // of NOTIFY, see inbox
}

// inbox is the channel of the notices for one process, by its Owner, so that the server
// sends them to no other. All listen on that of "" as well: there come those for a process
// that is not known, and those of earlier versions of this package.
func (t *tables) inbox(owner string) string {
	if owner == "" {
		return t.channel
	}
	return t.channel + "_" + owner
}

// tablePrefix permits any schema name that needs no quotes. The longest table name, and
// the channel's, must fit into 63 bytes. It is compiled when it is first needed, so that
// commands that use another store start faster.
var tablePrefix = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z_][a-z0-9_]{0,47}\.)?[a-z_][a-z0-9_]{0,47}$`)
})

func tablesOf(prefix string) (tables, error) {
	if !tablePrefix().MatchString(prefix) {
		return tables{}, errors.New("postgres: table_prefix must be up to 48 of a-z, 0-9 and _ that do not begin with a digit, and a schema and a dot before them if need be")
	}
	return tables{
		shown: prefix + "*",
		meta:  prefix + "meta", head: prefix + "head", claim: prefix + "claim", record: prefix + "record",
		channel: strings.ReplaceAll(prefix[max(0, len(prefix)-48):], ".", "_") + "turn",
	}, nil
}

// qualified is a table's name as it stands in statements.
func (t *tables) qualified(table string) string {
	if strings.Contains(table, ".") {
		return table
	}
	return schemaMark + table
}

// missingSchema says what to do where there is no schema for the tables.
func (t *tables) missingSchema() string {
	if schema, _, named := strings.Cut(t.shown, "."); named {
		return "CREATE SCHEMA " + schema + " first"
	}
	return "set the search_path to one that is there, or name it in table_prefix"
}

func (t *tables) schema() string {
	return strings.NewReplacer("{meta}", t.meta, "{head}", t.head, "{claim}", t.claim, "{record}", t.record).Replace(schemaSQL)
}

// lockNumber is the advisory lock under which the tables are made.
func (t *tables) lockNumber() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("pawl " + t.head)) // never fails
	return int64(h.Sum64())
}
