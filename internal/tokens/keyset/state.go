package keyset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/koalagate/koalagate/internal/atomicfile"
	"github.com/koalagate/koalagate/internal/tokens"
)

// saved is a file in the state folder: the last good keys of an address.
type saved struct {
	Address string    `json:"address"`
	From    string    `json:"from"` // the address of the keys: of an issuer, another one
	At      time.Time `json:"at"`
	Keys    string    `json:"keys"`
}

// maxSaved is the maximum size of such a file, in bytes.
const maxSaved = 3 * tokens.MaxKeysText // with escaped quotes

// path returns the file of the set in the state folder.
func (s *set) path() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", s.at.from, s.at.address))
	return filepath.Join(s.keeper.o.StateDir, "keys", hex.EncodeToString(sum[:16])+".json")
}

// restore reads the keys of an earlier run, before keep begins.
func (s *set) restore() {
	if s.keeper.o.StateDir == "" {
		return
	}
	one, err := readSaved(s.path())
	if err == nil && one.Address == s.at.address {
		err = s.accept([]byte(one.Keys))
	}
	switch {
	case os.IsNotExist(err):
	case err != nil:
		s.keeper.o.Logger.Warn("the keys of tokens in state_dir cannot be used", "keys", s.at.address, "error", err)
	case s.keys.Load() != nil:
		s.state.At, s.from = one.At, one.From
		s.beReady()
	}
}

func readSaved(path string) (*saved, error) {
	f, err := os.Open(path) //nolint:gosec // a name in the state folder
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSaved))
	if err != nil {
		return nil, err
	}
	one := new(saved)
	return one, json.Unmarshal(text, one)
}

// save keeps the keys for the next run.
func (s *set) save() {
	if s.keeper.o.StateDir == "" {
		return
	}
	text, err := json.Marshal(&saved{s.at.address, s.from, s.keeper.o.Now(), string(s.text)})
	if err == nil {
		err = atomicfile.Write(s.path(), text)
	}
	if err != nil {
		s.keeper.o.Logger.Warn("the keys of tokens cannot be saved in state_dir; the next start depends on their address", "keys", s.at.address, "error", err)
	}
}

// remove removes the file of the set.
func (s *set) remove() {
	if err := os.Remove(s.path()); err != nil && !os.IsNotExist(err) {
		s.keeper.o.Logger.Debug("keys of tokens that are not used any more stay in state_dir", "keys", s.at.address, "error", err)
	}
}

// keptUnused is how long a file stays that no set in use has: the rules of an earlier version may
// come back.
const keptUnused = 7 * 24 * time.Hour

// sweep removes the files of addresses that were given up while no process followed them.
func (k *Keeper) sweep() {
	if k.o.StateDir == "" {
		return
	}
	folder := filepath.Join(k.o.StateDir, "keys")
	files, err := os.ReadDir(folder)
	if err != nil {
		return // it is made with the first file
	}
	used := make(map[string]bool)
	for _, s := range k.sets() {
		used[s.path()] = true
	}
	for _, file := range files {
		path := filepath.Join(folder, file.Name())
		info, err := file.Info()
		if err != nil || used[path] || !info.Mode().IsRegular() || k.o.Now().Sub(info.ModTime()) < keptUnused {
			continue
		}
		if err := os.Remove(path); err != nil {
			k.o.Logger.Debug("old keys of tokens stay in state_dir", "file", path, "error", err)
		}
	}
}
