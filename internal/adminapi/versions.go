package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/reload"
)

// Fleet is the state of the published rules.
type Fleet struct {
	Prefix          string    `json:"prefix"`            // redis_prefix
	InForce         uint64    `json:"in_force"`          // 0 without a valid version in force
	Last            uint64    `json:"last"`              // the highest number of a version; the next one has the number above it
	Now             time.Time `json:"now"`               // the clock of Redis
	MaxVersionBytes int64     `json:"max_version_bytes"` // of this instance
}

// Version is a version in the history.
type Version struct {
	Version uint64    `json:"version"`
	Hash    string    `json:"hash"`
	Author  string    `json:"author"`
	Note    string    `json:"note"`
	At      time.Time `json:"at"`
	InForce bool      `json:"in_force"`
	Rules   int       `json:"rules"`
	// Problem is the reason why the version cannot be used, "" if it can.
	Problem string `json:"problem,omitempty"`
}

// VersionDetail is a version with its rule files.
type VersionDetail struct {
	Version
	Before uint64 `json:"before"` // the version in force before it, 0 for none
	// Purpose is what its signature is for: in-force for versions that are or were in force;
	// "" without one.
	Purpose fleet.Purpose   `json:"purpose,omitempty"`
	Program string          `json:"program"`
	Files   []VersionFile   `json:"files"`
	Lists   []VersionList   `json:"lists"`
	Content *fleet.Manifest `json:"content"` // to publish the same content again
}

// VersionFile is a rule file of a version.
type VersionFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// VersionList is a word list or a table of a version, without its entries.
type VersionList struct {
	Source string `json:"source"` // the rule file that declares it
	Path   string `json:"path"`
	Hash   string `json:"sha256"`
	Size   int64  `json:"size"` // bytes
}

// Difference is the change from one version to another.
type Difference struct {
	Changes *reload.Changes `json:"changes"`
}

// published are the routes of instances with published rules.
var published = []route{
	{http.MethodGet, "fleet", access.Read, light, (*server).fleet},
	{http.MethodGet, "instances", access.Read, light, (*server).instances},
	{http.MethodDelete, "instances/{id}", access.Change, light, (*server).dismiss},
	{http.MethodGet, "versions", access.Read, brief, (*server).versions},
	{http.MethodPost, "versions", access.Change, lengthy, (*server).publish},
	{http.MethodGet, "versions/{number}", access.Read, lengthy, (*server).version},
	{http.MethodGet, "versions/{number}/contents/{hash}", access.Change, lengthy, (*server).content},
	{http.MethodGet, "differences/{from}/{to}", access.Read, lengthy, (*server).difference},
	{http.MethodGet, "proposals/{number}", access.Read, light, (*server).progress},
	{http.MethodPost, "proposals/{number}", access.Change, light, (*server).enforce},
	{http.MethodPost, "contents/missing", access.Change, lengthy, (*server).missing},
	{http.MethodPut, "contents/{hash}", access.Change, light, (*server).upload},
}

// member returns the part of the instance in published rules.
func (s *server) member() (*fleet.Member, error) {
	if s.Member == nil {
		return nil, problem(http.StatusNotFound, "this instance takes its rules from files; published rules need --rules redis: and --redis URL")
	}
	return s.Member, nil
}

// fleetProblem returns the problem behind an error of package fleet, nil for another.
func fleetProblem(err error) *Problem {
	var conflict *fleet.ConflictError
	var refused *fleet.RefusedError
	switch {
	case errors.As(err, &conflict):
		return problem(http.StatusConflict, "%v", err)
	case errors.As(err, &refused):
		return problem(http.StatusUnprocessableEntity, "%v", err)
	}
	return nil
}

func (s *server) fleet(w http.ResponseWriter, r *http.Request) error {
	m, err := s.member()
	if err != nil {
		return err
	}
	now, err := m.Standing(r.Context())
	if err != nil {
		return err
	}
	o := m.Records().Options()
	return done(w, r, &Fleet{Prefix: o.Prefix, InForce: now.InForce, Last: now.Last, Now: now.Now, MaxVersionBytes: o.MaxVersionBytes})
}

func (s *server) instances(w http.ResponseWriter, r *http.Request) error {
	m, err := s.member()
	if err != nil {
		return err
	}
	list, err := m.Records().Instances(r.Context())
	if err != nil {
		return err
	}
	return done(w, r, list)
}

// dismiss forgets an instance that is gone, and answers with its last state.
func (s *server) dismiss(w http.ResponseWriter, r *http.Request) error {
	m, err := s.member()
	if err != nil {
		return err
	}
	one, err := m.Records().Dismiss(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, fleet.ErrUnknownInstance):
		return problem(http.StatusNotFound, "%v", err)
	case errors.Is(err, fleet.ErrLiveInstance):
		return problem(http.StatusConflict, "%v", err)
	case err != nil:
		return err
	}
	s.record(r, "instance dismiss", fmt.Sprintf("%.100s at %.300q, pid %d", one.ID, one.Host, one.PID))
	return done(w, r, one)
}

func (s *server) versions(w http.ResponseWriter, r *http.Request) error {
	m, err := s.member()
	if err != nil {
		return err
	}
	listed, err := m.Records().Versions(r.Context())
	if err != nil {
		return err
	}
	list := make([]Version, len(listed))
	for i := range listed {
		list[i] = versionOf(listed[i].Manifest)
		list[i].InForce, list[i].Problem = listed[i].InForce, listed[i].Problem
	}
	return done(w, r, list)
}

func versionOf(m *fleet.Manifest) Version {
	return Version{Version: m.Number, Hash: m.Hash, Author: m.Author, Note: m.Note, At: m.At, Rules: m.Rules}
}

// versionIn returns the member of the fleet, and the number of a version in the path of a request.
func (s *server) versionIn(r *http.Request) (m *fleet.Member, number uint64, err error) {
	if m, err = s.member(); err != nil {
		return nil, 0, err
	}
	number, err = numberIn(r, "number")
	return m, number, err
}

// numberIn returns a number in the path of a request.
func numberIn(r *http.Request, name string) (uint64, error) {
	n, err := strconv.ParseUint(r.PathValue(name), 10, 53)
	if err != nil || n == 0 {
		return 0, problem(http.StatusBadRequest, "%.40q is not the number of a version", r.PathValue(name))
	}
	return n, nil
}

// version answers with a version; active is the number of the version that the instance has.
func (s *server) version(w http.ResponseWriter, r *http.Request) error {
	m, err := s.member()
	if err != nil {
		return err
	}
	var manifest *fleet.Manifest
	var purpose fleet.Purpose
	if r.PathValue("number") == "active" {
		if manifest = m.Active(); manifest == nil {
			return problem(http.StatusUnprocessableEntity, "this instance has no rules yet")
		}
	} else {
		number, err := numberIn(r, "number")
		if err != nil {
			return err
		}
		if manifest, purpose, err = m.Records().Version(r.Context(), number); err != nil {
			return err
		}
	}
	state, err := m.Records().State(r.Context())
	if err != nil {
		return err
	}
	d := &VersionDetail{Version: versionOf(manifest), Before: manifest.Before, Purpose: purpose, Program: manifest.Program, Content: manifest, Files: []VersionFile{}, Lists: []VersionList{}}
	d.InForce = manifest.Number == state.InForce
	for _, f := range manifest.Files {
		text := m.Held(r.Context(), f.Blob)
		if text == nil {
			if text, err = m.Records().ReadBlob(r.Context(), f.Blob); err != nil {
				return err
			}
		}
		d.Files = append(d.Files, VersionFile{f.Name, string(text)})
	}
	for _, l := range manifest.Lists {
		d.Lists = append(d.Lists, VersionList{l.Source, l.Path, l.Sum, l.Size})
	}
	return done(w, r, d)
}

func (s *server) difference(w http.ResponseWriter, r *http.Request) error {
	m, err := s.member()
	if err != nil {
		return err
	}
	from, err := numberIn(r, "from")
	if err != nil {
		return err
	}
	to, err := numberIn(r, "to")
	if err != nil {
		return err
	}
	changes, err := m.Changes(r.Context(), from, to)
	if err != nil {
		return err
	}
	return done(w, r, &Difference{changes})
}

// content answers with a content of a version, as it is. It needs the token for changes: tables
// have data that no other answer has.
func (s *server) content(w http.ResponseWriter, r *http.Request) error {
	m, number, err := s.versionIn(r)
	if err != nil {
		return err
	}
	manifest, _, err := m.Records().Version(r.Context(), number)
	if err != nil {
		return err
	}
	blobs := manifest.Blobs()
	i := slices.IndexFunc(blobs, func(b fleet.Blob) bool { return b.Sum == r.PathValue("hash") })
	if i < 0 {
		return problem(http.StatusNotFound, "version %d has no content with this hash", number)
	}
	content := m.Held(r.Context(), blobs[i])
	if content == nil {
		if content, err = m.Records().ReadBlob(r.Context(), blobs[i]); err != nil {
			return err
		}
	}
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(UploadTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	_, err = w.Write(content) //nolint:gosec // octet-stream, and every answer of this API has nosniff
	return err
}
