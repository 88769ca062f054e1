package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/operations"
)

// maxModes is the maximum size of a request that changes modes, in bytes.
const maxModes = 4 << 10

// modes serves /modes: GET returns the mode of every door, and POST, with the token for
// changes, changes the doors in its JSON object, such as {"ratelimit":"observe"}, and
// answers like GET. An invalid request changes nothing.
type modes struct {
	*engine.Modes
	changed func(*http.Request, map[string]engine.Mode) // nil for nobody
}

func (m modes) get(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, operations.Modes(m.Modes))
}

func (m modes) post(w http.ResponseWriter, r *http.Request) {
	changes, err := readModes(http.MaxBytesReader(w, r.Body, maxModes))
	if err != nil {
		w.Header().Set("Connection", "close") // the rest of the body may be large
		setSafeHeaders(w.Header())
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.Set(changes)
	if m.changed != nil {
		m.changed(r, changes)
	}
	m.get(w, r)
}

// readModes reads a change of modes. It fails if any part is invalid.
func readModes(body io.Reader) (map[string]engine.Mode, error) {
	var changes map[string]engine.Mode
	d := json.NewDecoder(body)
	err := d.Decode(&changes)
	if _, rest := d.Token(); err != nil || changes == nil || !errors.Is(rest, io.EOF) {
		return nil, errors.New(`want one JSON object of doors and modes, like {"ratelimit":"observe"}`)
	}
	if err := operations.CheckModes(changes); err != nil {
		return nil, err
	}
	return changes, nil
}
