package main

import (
	"os"
	"slices"
	"strings"

	"github.com/pawl-go/pawl"
)

// The variables in which a command finds the claim IDs of the pawl that runs it,
// and of all pawls around that one. A nested pawl uses them to recognise holders
// that wait for it. Process ids and host names cannot do that, because containers
// may share them.
const (
	ownerVar  = "PAWL_LOCK_OWNER"  // the claim ID of the innermost pawl
	ownersVar = "PAWL_LOCK_OWNERS" // the claim IDs of all, outermost first
)

// maxOwners limits the list, which grows if a command restarts itself through pawl.
// The innermost IDs are kept; they take half of what Windows allows for a variable.
const maxOwners = 500

// idLength is the length of a claim's ID. Anything else was not set by pawl.
const idLength = 32

// owners returns the claim IDs of all enclosing pawls, outermost first. An older
// enclosing pawl sets only its own.
func owners() []string {
	all := strings.Fields(os.Getenv(ownersVar) + " " + os.Getenv(ownerVar))
	all = slices.DeleteFunc(all, func(id string) bool { return len(id) != idLength })
	if n := len(all); n > 1 && slices.Contains(all[:n-1], all[n-1]) {
		all = all[:n-1] // both variables contain the innermost
	}
	return all
}

// ownersIn returns the list for a command that runs under lease.
func ownersIn(lease *pawl.Lease) string {
	all := owners()
	for _, part := range lease.Parts() {
		all = append(all, part.ID())
	}
	return strings.Join(all[max(0, len(all)-maxOwners):], " ")
}
