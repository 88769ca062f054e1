package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/reload"
)

// NewVersion is a version to publish. Its contents are stored before.
type NewVersion struct {
	Manifest string `json:"manifest"` // the text that Signature covers
	// Signature is what fleet.Sign returns, for publish or the trial.
	Signature string `json:"signature,omitempty"`
	TimeoutMS int64  `json:"timeout_ms"`
	Quorum    int    `json:"quorum,omitempty"` // instances that must be ready, 0 for all
	// Trial tries the version on live requests; nil brings it into force.
	Trial *NewTrial `json:"trial,omitempty"`
}

// NewTrial are the options of a trial.
type NewTrial struct {
	LengthMS int64  `json:"length_ms"` // 1 s … 31 days
	Then     string `json:"then"`      // what follows: enforce, keep or ask
	// AbortAbove is the share of newly refused requests in percent that aborts the
	// trial, from 1,000 requests on; 0 never does.
	AbortAbove float64 `json:"abort_above,omitempty"`
}

// Proposed is a version that waits for the instances.
type Proposed struct {
	Version uint64          `json:"version"`
	Changes *reload.Changes `json:"changes,omitempty"` // from the version in force
}

// Progress is what became of a proposed version.
type Progress struct {
	// State is pending, ready, in_force, trial, refused, conflict, lapsed or unknown. A signed
	// version is ready when it waits for its Enforcement.
	State   string     `json:"state"`
	Detail  string     `json:"detail"`
	At      *time.Time `json:"at,omitempty"` // when it comes into force, or its trial ends
	Ready   []string   `json:"ready"`        // ids of instances
	Waiting []string   `json:"waiting"`
}

// Enforcement is the signature with which a version that is ready comes into force.
type Enforcement struct {
	Signature string `json:"signature"` // as fleet.Sign returns it, for in-force
}

// Missing are hashes of contents that Redis does not have.
type Missing struct {
	Contents []fleet.Blob `json:"contents"`
}

// missing answers with the contents that Redis lacks.
func (s *server) missing(w http.ResponseWriter, r *http.Request) error {
	m, err := s.member()
	if err != nil {
		return err
	}
	var request Missing
	if err := read(w, r, &request); err != nil {
		return err
	}
	if err := m.Records().CheckBlobs(request.Contents); err != nil {
		return problem(http.StatusBadRequest, "%v", err)
	}
	answer := Missing{Contents: []fleet.Blob{}}
	for _, b := range request.Contents {
		has, err := m.Records().HasBlob(r.Context(), b)
		if err != nil {
			return err
		}
		if !has {
			answer.Contents = append(answer.Contents, b)
		}
	}
	return done(w, r, &answer)
}

// UploadTime is the time for which a caller may send a content.
const UploadTime = 10 * time.Minute

// upload stores a content, which is the body of the request.
func (s *server) upload(w http.ResponseWriter, r *http.Request) error {
	m, err := s.member()
	if err != nil {
		return err
	}
	if r.ContentLength < 0 {
		return problem(http.StatusLengthRequired, "want Content-Length")
	}
	control := http.NewResponseController(w)
	deadline := time.Now().Add(UploadTime)
	for _, err := range []error{control.SetReadDeadline(deadline), control.SetWriteDeadline(deadline)} {
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	b := fleet.Blob{Sum: r.PathValue("hash"), Size: r.ContentLength}
	if err := m.Records().WriteBlob(r.Context(), b, r.Body); err != nil {
		w.Header().Set("Connection", "close") // the rest of the body may be large
		return err
	}
	return done(w, r, &b)
}

// publish proposes a version, and answers with its number and its changes.
func (s *server) publish(w http.ResponseWriter, r *http.Request) error {
	m, err := s.member()
	if err != nil {
		return err
	}
	var n NewVersion
	if err := read(w, r, &n); err != nil {
		return err
	}
	p := &fleet.Proposal{
		Manifest: []byte(n.Manifest), Signature: n.Signature, Timeout: milliseconds(n.TimeoutMS), Quorum: n.Quorum,
	}
	action := "publish"
	if t := n.Trial; t != nil {
		action = "trial"
		p.Trial = &fleet.TrialOptions{Length: milliseconds(t.LengthMS), Then: t.Then, AbortAbove: t.AbortAbove}
	}
	manifest, changes, err := m.Propose(r.Context(), p)
	if err != nil {
		return s.overtaken(r.Context(), m, n.Manifest, err)
	}
	detail := fmt.Sprintf("version %d, %s", manifest.Number, manifest.Author)
	if manifest.Note != "" {
		detail += ": " + manifest.Note
	}
	s.record(r, action, detail)
	return done(w, r, &Proposed{manifest.Number, changes})
}

// milliseconds returns n ms, or a time outside of all bounds if no Duration holds n ms.
func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -1), most)) * time.Millisecond
}

// progress answers what became of a proposed version.
func (s *server) progress(w http.ResponseWriter, r *http.Request) error {
	m, number, err := s.versionIn(r)
	if err != nil {
		return err
	}
	o, err := m.Records().Outcome(r.Context(), number)
	if err != nil {
		return err
	}
	if o.State == "conflict" {
		o.Detail = s.overtakenLater(r.Context(), m, number, o.Detail)
	}
	p := &Progress{State: o.State, Detail: o.Detail, Ready: append([]string{}, o.Ready...), Waiting: append([]string{}, o.Waiting...)}
	if !o.At.IsZero() {
		p.At = &o.At
	}
	return done(w, r, p)
}

// enforce brings a signed version into force that is ready, and answers what became of it.
func (s *server) enforce(w http.ResponseWriter, r *http.Request) error {
	m, number, err := s.versionIn(r)
	if err != nil {
		return err
	}
	var e Enforcement
	if err := read(w, r, &e); err != nil {
		return err
	}
	if err := m.Records().Enforce(r.Context(), number, e.Signature); err != nil {
		return err
	}
	s.record(r, "publish", fmt.Sprintf("version %d, signed as the one in force", number))
	return s.progress(w, r)
}
