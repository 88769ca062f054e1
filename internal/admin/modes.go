package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
)

// maxModes bounds a change of modes, in bytes.
const maxModes = 4 << 10

// modes serves /modes: GET tells the mode of every door, POST changes those
// that its JSON object names, {"ratelimit":"observe"}, and answers like GET.
// What is faulty changes nothing.
type modes struct{ *engine.Modes }

func (m modes) get(w http.ResponseWriter, _ *http.Request) {
	all := make(map[string]engine.Mode)
	for _, door := range doorname.Served() {
		all[door] = m.Of(door)
	}
	reply(w, http.StatusOK, all)
}

func (m modes) post(w http.ResponseWriter, r *http.Request) {
	changes, err := readModes(http.MaxBytesReader(w, r.Body, maxModes))
	if err != nil {
		harmless(w.Header())
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.Set(changes)
	m.get(w, r)
}

// readModes reads a change, and refuses it as a whole if a part is faulty.
func readModes(body io.Reader) (map[string]engine.Mode, error) {
	var changes map[string]engine.Mode
	d := json.NewDecoder(body)
	err := d.Decode(&changes)
	if _, rest := d.Token(); err != nil || changes == nil || !errors.Is(rest, io.EOF) {
		return nil, errors.New(`want one JSON object of doors and modes, like {"ratelimit":"observe"}`)
	}
	for door, mode := range changes {
		if !doorname.IsServed(door) {
			return nil, fmt.Errorf("%q is no door; want one of %s", door, strings.Join(doorname.Served(), ", "))
		}
		if _, err := engine.ParseMode(string(mode)); err != nil {
			return nil, fmt.Errorf("%s: %w", door, err)
		}
	}
	return changes, nil
}
