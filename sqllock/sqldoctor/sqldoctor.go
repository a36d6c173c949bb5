// Package sqldoctor examines stores in PostgreSQL, MySQL, MariaDB and SQLite, for package
// doctor. It links the clients of all of them: a program that uses one of these stores
// imports that store's package below instead.
package sqldoctor

import (
	_ "github.com/pawl-go/pawl/sqllock/sqldoctor/mysqldoctor"    // mysql:
	_ "github.com/pawl-go/pawl/sqllock/sqldoctor/postgresdoctor" // postgres:
	_ "github.com/pawl-go/pawl/sqllock/sqldoctor/sqlitedoctor"   // sqlite:
)
