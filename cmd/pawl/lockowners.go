package main

import (
	"os"
	"slices"
	"strings"

	"github.com/pawl-go/pawl"
)

// The variables by which a command knows the claims of the pawl that runs it, and of
// those around that one. They are how a nested pawl recognises what waits for it:
// process numbers and hosts tell nothing, since containers beside each other share them.
const (
	ownerVar  = "PAWL_LOCK_OWNER"  // the ID of the innermost
	ownersVar = "PAWL_LOCK_OWNERS" // the IDs of all, outermost first
)

// maxOwners bounds the list, which a command that starts itself anew through pawl makes
// longer every time: the innermost are kept, in half of what Windows allows a variable.
const maxOwners = 500

// idLength is that of a claim's ID; what is no ID came from elsewhere.
const idLength = 32

// owners lists the IDs of the claims of all pawls that we run in, outermost first. An
// older pawl around us names only its own.
func owners() []string {
	all := strings.Fields(os.Getenv(ownersVar) + " " + os.Getenv(ownerVar))
	all = slices.DeleteFunc(all, func(id string) bool { return len(id) != idLength })
	if n := len(all); n > 1 && slices.Contains(all[:n-1], all[n-1]) {
		all = all[:n-1] // the innermost is in both variables
	}
	return all
}

// ownersIn is the list for a command that runs under lease.
func ownersIn(lease *pawl.Lease) string {
	all := owners()
	for _, part := range lease.Parts() {
		all = append(all, part.ID())
	}
	return strings.Join(all[max(0, len(all)-maxOwners):], " ")
}
