package operations

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
)

// Modes returns the mode of every door.
func Modes(m *engine.Modes) map[string]engine.Mode {
	all := make(map[string]engine.Mode)
	for _, door := range doorname.Served() {
		all[door] = m.Of(door)
	}
	return all
}

// CheckModes returns an InputError if a name of a door or a mode is unknown.
func CheckModes(changes map[string]engine.Mode) error {
	for door, mode := range changes {
		if !doorname.IsServed(door) {
			return invalid("unknown door %q; want one of %s", door, strings.Join(doorname.Served(), ", "))
		}
		if _, err := engine.ParseMode(string(mode)); err != nil {
			return InputError{fmt.Errorf("%s: %w", door, err)}
		}
	}
	return nil
}

// DoorsOf returns the doors of a change in order.
func DoorsOf(changes map[string]engine.Mode) []string { return slices.Sorted(maps.Keys(changes)) }
