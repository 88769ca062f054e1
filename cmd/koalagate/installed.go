package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/env"
)

// installed is the folder with the settings of the service that a package has installed: /etc;
// "" for none.
type installed string

// settingsFile returns the path of the settings file below a folder.
func settingsFile(folder string) string { return filepath.Join(folder, "koalagate", "koalagate.yaml") }

// maxEnvironment is the maximum size of the file with the environment of the service, in bytes.
const maxEnvironment = 1 << 20

// settings returns the path of the settings of the installed service, and an environment
// to which the variables of its unit are added. The path is "" if no service is installed.
func (i installed) settings(environ []string) (string, []string, error) {
	path := settingsFile(string(i))
	if i == "" {
		return "", environ, nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", environ, nil
	} else if err != nil {
		return "", nil, fmt.Errorf("cannot read the settings of the service; set --admin or --config: %w", err)
	}
	of := filepath.Join(string(i), "default", "koalagate")
	info, err := os.Stat(of)
	if errors.Is(err, fs.ErrNotExist) {
		return path, environ, nil
	}
	if err == nil && info.Size() > maxEnvironment {
		err = fmt.Errorf("it has %d bytes; want at most %d", info.Size(), maxEnvironment)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(of) //nolint:gosec // a fixed name in /etc
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot read the environment of the service, %s; set --admin or --config: %w", of, err)
	}
	return path, append(slices.Clone(environ), unitVariables(string(text), environ)...), nil
}

// unitVariables returns the variables of koalagate in an EnvironmentFile of systemd that an
// environment does not have.
func unitVariables(text string, environ []string) []string {
	var list []string
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if !found || !strings.HasPrefix(name, "KOALAGATE_") || env.Value(environ, name) != "" {
			continue
		}
		if n := len(value); n > 1 && value[0] == value[n-1] && strings.ContainsRune(`"'`, rune(value[0])) {
			value = value[1 : n-1]
		}
		list = slices.DeleteFunc(list, func(entry string) bool { return strings.HasPrefix(entry, name+"=") }) // the last one counts
		list = append(list, name+"="+value)
	}
	return list
}
