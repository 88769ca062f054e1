package mapping

import (
	"fmt"
	"net/http"
	"strings"
)

// Refusal tells that a check cannot be decided, because of what it lacks or
// how it is formed. The door answers it as a denial with Status; it is never
// waved through. Its text holds nothing that a client wrote.
type Refusal struct {
	Status  int      // 400 for a malformed path, 403 for a check whose headers do not tell the request
	Reason  string   // for the log and the client
	Missing []string // the headers that are missing, as the manual spells them
}

// Error says why the check is refused, and what to do about it.
func (r *Refusal) Error() string { return r.Reason }

func lacking(door string, names []string) error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: fmt.Sprintf("%s: the check lacks a usable %s; have the gateway set it",
			door, strings.Join(names, ", ")),
		Missing: names,
	}
}

func disputed(door string, a, b field) error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: fmt.Sprintf("%s: %s and %s tell different paths; have the gateway set one and clear the other",
			door, a.name, b.name),
	}
}

func malformed(what string) error {
	return &Refusal{
		Status: http.StatusBadRequest,
		Reason: "malformed path: " + what,
	}
}
