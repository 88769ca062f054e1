// Package env looks up variables in an environment that is passed as a list, as os.Environ
// returns it, so that tests need not change the environment of their process.
package env

import "strings"

// Value returns the value of the first variable of this name among entries NAME=value, as
// os.Getenv does, and "" without one.
func Value(environ []string, name string) string {
	for _, entry := range environ {
		if key, value, found := strings.Cut(entry, "="); found && key == name {
			return value
		}
	}
	return ""
}
