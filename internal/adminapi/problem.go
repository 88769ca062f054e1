package adminapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/koalagate/koalagate/internal/operations"
)

// Problem is the answer to a request that failed, a problem document of RFC 9457.
type Problem struct {
	Type   string `json:"type"` // always about:blank
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"` // what is wrong, and what to do
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

func problem(status int, format string, args ...any) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// problemOf returns the problem behind an error.
func problemOf(err error) *Problem {
	var known *Problem
	var input operations.InputError
	if p := fleetProblem(err); p != nil {
		return p
	}
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &input):
		return problem(http.StatusBadRequest, "%v", err)
	}
	return problem(http.StatusServiceUnavailable, "%v", err)
}

// maxBody is the maximum size of a request, in bytes.
const maxBody = 1 << 20

// read decodes the JSON body of a request.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	return readUpTo(maxBody, w, r, into)
}

// readUpTo is read with another maximum size, in bytes.
func readUpTo(most int64, w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, rest := d.Token(); !errors.Is(rest, io.EOF) {
			err = errors.New("unexpected text after the JSON document")
		}
	}
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		w.Header().Set("Connection", "close")
		return problem(http.StatusRequestEntityTooLarge, "the request is longer than %d bytes", most)
	case err != nil:
		return problem(http.StatusBadRequest, "the request is not the JSON document of this path: %v; see /api/v1/openapi.yaml", err)
	}
	return nil
}

// reply writes a JSON document.
func reply(w http.ResponseWriter, status int, kind string, body any) {
	h := w.Header()
	h.Set("Content-Type", kind)
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	// An error means that the caller has disconnected.
	_ = e.Encode(body)
}
