// Package driverkit has the parts that engines have in common, so that a new engine
// writes only what its store does: reading and changing a line of claims, and telling
// that it has changed. It knows package driver and no store.
package driverkit
