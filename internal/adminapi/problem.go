package adminapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/koalagate/koalagate/internal/operations"
)

// Problem is the answer to a request that failed, a problem document of RFC 9457.
type Problem struct {
	Type   string `json:"type"` // always about:blank
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"` // what is wrong, and what to do
	// Entry is the number of the exception in the request, from 1, that is wrong; 0 if it is no
	// single one.
	Entry int `json:"entry,omitempty"`
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

// maxLongBody is the maximum size of a request with rule files or exceptions, in bytes.
const maxLongBody = 64 << 20

// readLong is read for a request that may be long: up to maxLongBody with the token for
// changes, else up to maxReaderBody.
func (s *server) readLong(w http.ResponseWriter, r *http.Request, into any) error {
	if s.mayChange(r) {
		return readUpTo(maxLongBody, w, r, into)
	}
	err := readUpTo(maxReaderBody, w, r, into)
	var p *Problem
	if errors.As(err, &p) && p.Status == http.StatusRequestEntityTooLarge {
		p.Detail += " without the token for changes"
	}
	return err
}

// readUpTo is read with another maximum size, in bytes.
func readUpTo(most int64, w http.ResponseWriter, r *http.Request, into any) error {
	d := newDecoder(r.Context(), http.MaxBytesReader(w, r.Body, most))
	err := d.document(into)
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		w.Header().Set("Connection", "close")
		return problem(http.StatusRequestEntityTooLarge, "the request is longer than %d bytes", most)
	case r.Context().Err() != nil:
		return r.Context().Err()
	case err != nil:
		return problem(http.StatusBadRequest, "the request is not the JSON document of this path: %v; see /api/v1/openapi.yaml", err)
	}
	return nil
}

// reply writes a JSON document.
func reply(w http.ResponseWriter, r *http.Request, status int, kind string, body any) {
	h := w.Header()
	h.Set("Content-Type", kind)
	w.WriteHeader(status)
	// An error means that the caller has disconnected, or waited too long.
	if encode(r.Context(), w, body) != nil {
		panic(http.ErrAbortHandler)
	}
}
