package mapping

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
)

// Refusal reports that a check cannot be decided, because it lacks a header or is
// malformed. An enforcing door denies such a check with Status. The text contains
// nothing that a client wrote.
type Refusal struct {
	Status  int      // 400 for a malformed request, 403 for a check whose headers do not describe the request
	Reason  string   // for the log and the client
	Missing []string // the missing headers, as the manual spells them
	// NoAddress reports that the request has no address of the client, and rules need one.
	NoAddress bool
}

// Error returns the reason and what to do about it.
func (r *Refusal) Error() string { return r.Reason }

// unknownDoor refuses the requests of a door for which read has no case: no part of them
// can be trusted.
func unknownDoor(door string) error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: fmt.Sprintf("the request came through a door with the unknown name %q; use one of %s",
			door, strings.Join(doorname.All(), ", ")),
	}
}

func lacking(door string, names []string) error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: fmt.Sprintf("%s: the check lacks a usable %s; have the gateway set it",
			door, strings.Join(names, ", ")),
		Missing: names,
	}
}

func withoutAddress(door string) error {
	return &Refusal{
		Status:    http.StatusBadRequest,
		Reason:    door + ": the connection has no IP address of the client, which the rules need",
		NoAddress: true,
	}
}

func disputed(door string, a, b field) error {
	return &Refusal{
		Status: http.StatusForbidden,
		Reason: fmt.Sprintf("%s: %s and %s name different paths; have the gateway set one and clear the other",
			door, a.name, b.name),
	}
}

func malformedHost(what string) error {
	return &Refusal{
		Status: http.StatusBadRequest,
		Reason: "malformed host: " + what,
	}
}

func malformed(what string) error {
	return &Refusal{
		Status: http.StatusBadRequest,
		Reason: "malformed path: " + what,
	}
}
