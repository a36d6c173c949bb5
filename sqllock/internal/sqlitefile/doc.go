// Package sqlitefile knows where a SQLite file may be: it reads store URLs and checks the
// file's place, for the engine and for its examiner alike.
package sqlitefile
