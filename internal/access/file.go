package access

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/koalagate/koalagate/internal/env"
)

const (
	folderMode = 0o700
	// maxToken is the maximum length of a token in a file, in bytes.
	maxToken = 4096
)

// File is a token that an instance made, in a file of its own.
type File struct {
	Token string
	Path  string
}

// MakeFile makes a token for the instance at an admin address, in a file in dir that only
// the user of the process can read. It replaces the file of an instance that had the
// address before.
func MakeFile(dir, address string) (*File, error) {
	f := &File{Token: rand.Text(), Path: filepath.Join(dir, fileNames(address)[0])}
	temporary, err := os.CreateTemp(dir, ".token") // with mode 0600
	if err != nil {
		return nil, err
	}
	_, err = temporary.WriteString(f.Token + "\n")
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), f.Path)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(temporary.Name()))
	}
	return f, nil
}

// Remove removes the file, unless another instance has replaced it.
func (f *File) Remove() error {
	if token, err := ReadFile(f.Path); err != nil || token != f.Token {
		return nil //nolint:nilerr // another instance has replaced or removed it
	}
	return os.Remove(f.Path)
}

// ReadFile returns the token in a file.
func ReadFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxToken {
		return "", fmt.Errorf("%s is not a file with a token on one line", path)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("%s is empty; want a token on one line", path)
	}
	return token, nil
}

// Find returns the token of the instance at an admin address from the first of dirs that
// has it, and reports whether there is one.
func Find(dirs []string, address string) (string, bool) {
	for _, dir := range dirs {
		for _, name := range fileNames(address) {
			if token, err := ReadFile(filepath.Join(dir, name)); err == nil {
				return token, true
			}
		}
	}
	return "", false
}

// fileNames returns the names of the file of an address: its own name, and the names for an
// instance that listens at all addresses of the machine.
func fileNames(address string) []string {
	name := func(text string) string {
		return "admin-" + strings.Map(func(r rune) rune {
			if strings.ContainsRune(`/\:[]%`, r) {
				return '_'
			}
			return r
		}, text) + ".token"
	}
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		return []string{name(path)}
	}
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return []string{name("any:" + port), name("127.0.0.1:" + port), name("[::1]:" + port)}
	}
	if host == "localhost" {
		return []string{name("127.0.0.1:" + port), name("[::1]:" + port), name("any:" + port)}
	}
	return []string{name(address), name("any:" + port)}
}

// RuntimeDir returns the folder in which instances of this user make their tokens, and
// creates it: koalagate in XDG_RUNTIME_DIR, or a folder of the user below the folder for
// temporary files. It fails if another user could read or replace its files.
func RuntimeDir(environ []string) (string, error) {
	dir := runtimeDir(environ)
	if err := os.Mkdir(dir, folderMode); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return "", err
	case !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !isOwn(info):
		return "", fmt.Errorf("%s is not a folder that only this user can use; remove it, or set XDG_RUNTIME_DIR", dir)
	}
	return dir, nil
}

// Dirs returns the folders in which Find looks for the tokens of this user's instances.
// stateDir is the state_dir of the instance, "" if it is unknown. A folder of another
// user is not among them.
func Dirs(environ []string, stateDir string) []string {
	var dirs []string
	if stateDir != "" {
		dirs = append(dirs, stateDir)
	}
	dir := runtimeDir(environ)
	if info, err := os.Lstat(dir); err == nil && info.IsDir() && isOwn(info) {
		dirs = append(dirs, dir)
	}
	return dirs
}

func runtimeDir(environ []string) string {
	if dir := env.Value(environ, "XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "koalagate")
	}
	temporary := cmp.Or(env.Value(environ, "TMPDIR"), os.TempDir())
	return filepath.Join(temporary, fmt.Sprintf("koalagate-%d", os.Getuid()))
}
