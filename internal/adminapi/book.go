package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/traffic"
	"github.com/koalagate/koalagate/internal/vocabulary"
)

// State is the state of the instance.
type State struct {
	Ready      bool      `json:"ready"`
	Reason     string    `json:"reason,omitempty"` // why it is not ready
	Generation uint64    `json:"generation"`
	Hash       string    `json:"hash"`
	Rules      int       `json:"rules"`
	LoadedAt   time.Time `json:"loaded_at"`
	LastError  string    `json:"last_error"`
	// Fault says what LastError is about: the newer rules (empty), Redis (away), or what Redis
	// has lost (lost).
	Fault      reload.Fault    `json:"fault,omitempty"`
	Release    *reload.Release `json:"release,omitempty"` // of a published version
	Store      string          `json:"store"`             // memory, redis or degraded
	StoreError string          `json:"store_error,omitempty"`
	Program    string          `json:"program"`
	Host       string          `json:"host"`
	// Published reports that the rules come from Redis and can be published here.
	Published bool `json:"published"`
	// Signed reports that only signed versions are accepted.
	Signed bool `json:"signed"`
	// FleetModes reports that the modes of all instances can be set here.
	FleetModes bool      `json:"fleet_modes"`
	Now        time.Time `json:"now"` // the clock of Redis, or of the instance without Redis
}

// Word is a word of the rule language.
type Word struct {
	Word     string   `json:"word"`
	Methods  []string `json:"methods"` // that use it; none for all
	Required bool     `json:"required"`
}

// TokenWords are the words of [tokens], and of conditions on its outcomes.
type TokenWords struct {
	Words      []string `json:"words"`  // before = in a line
	Places     []string `json:"places"` // the values of from=
	Algorithms []string `json:"algorithms"`
	Outcomes   []string `json:"outcomes"` // the values of jwt.NAME
}

// Words are the words of the rule language.
type Words struct {
	Sections   []string `json:"sections"`
	Methods    []string `json:"methods"`
	Thresholds []Word   `json:"thresholds"`
	Outcomes   []Word   `json:"outcomes"`
	Policies   []string `json:"policies"`
	Sources    []string `json:"sources"`
	Modifiers  []string `json:"modifiers"`
	// Tokens are the words of [tokens].
	Tokens  TokenWords `json:"tokens"`
	Derived []string   `json:"derived"`
	Codes   []Code     `json:"codes"`
	Doors   []Door     `json:"doors"`
}

// Door is a door that a question can name.
type Door struct {
	Door string `json:"door"`
	Text string `json:"text"` // who calls it
	// Request reports that it receives a request of a client, and Descriptor that it
	// receives a domain and a descriptor. Other doors receive parameters alone.
	Request    bool `json:"request"`
	Descriptor bool `json:"descriptor"`
}

// Code is a kind of finding.
type Code struct {
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
}

// texts are the routes about rules as they are written.
var texts = []route{
	{http.MethodGet, "state", access.Read, light, (*server).state},
	{http.MethodGet, "rules", access.Read, lengthy, (*server).rules},
	{http.MethodGet, "rules/{rule}", access.Read, light, (*server).rule},
	{http.MethodGet, "words", access.Read, light, (*server).words},
	{http.MethodPost, "check", access.Read, lengthy, (*server).check},
	{http.MethodPost, "format", access.Read, lengthy, (*server).format},
	{http.MethodPost, "explain", access.Read, lengthy, (*server).explain},
	{http.MethodPost, "replay", access.Change, lengthy, (*server).replay}, // it changes nothing, but takes seconds of a processor
	{http.MethodGet, "modes", access.Read, light, (*server).modes},
	{http.MethodPost, "modes", access.Change, light, (*server).changeModes},
}

func (s *server) state(w http.ResponseWriter, r *http.Request) error { return done(w, r, s.State()) }

func (s *server) rules(w http.ResponseWriter, r *http.Request) error {
	book, err := s.Desk.Book(r.Context())
	if err != nil {
		return err
	}
	return done(w, r, book)
}

// rule answers with the rule that has a number or a name.
func (s *server) rule(w http.ResponseWriter, r *http.Request) error {
	row, err := s.Desk.Rule(r.PathValue("rule"))
	if err != nil {
		return err
	}
	return done(w, r, row)
}

func (s *server) words(w http.ResponseWriter, r *http.Request) error {
	v := vocabulary.Language()
	all := &Words{
		Sections: v.Sections, Methods: v.Methods, Thresholds: wordsOf(v.Thresholds), Outcomes: wordsOf(v.Outcomes),
		Policies: v.Policies, Sources: v.Sources, Modifiers: v.Modifiers, Derived: v.Derived, Tokens: TokenWords(v.Tokens),
	}
	for _, c := range vocabulary.Codes() {
		all.Codes = append(all.Codes, Code{c.ID, c.Meaning})
	}
	for _, name := range doorname.All() {
		d := doorname.Of(name)
		all.Doors = append(all.Doors, Door{name, d.Text, !d.NamesParams(), d.Adds == doorname.Entries})
	}
	return done(w, r, all)
}

func wordsOf(list []vocabulary.Word) []Word {
	words := make([]Word, len(list))
	for i, w := range list {
		words[i] = Word{w.Name, append([]string{}, w.Methods...), w.Required}
	}
	return words
}

func (s *server) check(w http.ResponseWriter, r *http.Request) error {
	var draft operations.Draft
	if err := s.readLong(w, r, &draft); err != nil {
		return err
	}
	checked, err := s.Desk.Check(r.Context(), &draft)
	if err != nil {
		return err
	}
	return done(w, r, checked)
}

func (s *server) format(w http.ResponseWriter, r *http.Request) error {
	var file operations.File
	if err := s.readLong(w, r, &file); err != nil {
		return err
	}
	formatted, err := s.Desk.Format(r.Context(), &file)
	if err != nil {
		return err
	}
	return done(w, r, formatted)
}

func (s *server) explain(w http.ResponseWriter, r *http.Request) error {
	var question operations.Explanation
	if err := s.readLong(w, r, &question); err != nil {
		return err
	}
	report, err := s.Desk.Explain(r.Context(), &question)
	if err != nil {
		return err
	}
	return done(w, r, report)
}

func (s *server) replay(w http.ResponseWriter, r *http.Request) error {
	var question operations.Replay
	if err := s.readLong(w, r, &question); err != nil {
		return err
	}
	replayed, err := s.Desk.Replay(r.Context(), &question)
	switch {
	case errors.Is(err, operations.ErrNoLog):
		return problem(http.StatusNotFound, "%v", err)
	case err != nil:
		return err
	}
	return done(w, r, replayed)
}

func (s *server) modes(w http.ResponseWriter, r *http.Request) error {
	return done(w, r, operations.Modes(s.Modes))
}

func (s *server) changeModes(w http.ResponseWriter, r *http.Request) error {
	var changes map[string]engine.Mode
	if err := read(w, r, &changes); err != nil {
		return err
	}
	if len(changes) == 0 {
		return problem(http.StatusBadRequest, `want a door and its mode, such as {"ratelimit":"observe"}`)
	}
	if err := operations.CheckModes(changes); err != nil {
		return err
	}
	scope, err := s.scopeOfModes(r, changes)
	if err != nil {
		return err
	}
	s.Modes.Set(changes)
	RecordModes(s.Trail, s.Traffic, r, changes, scope)
	return s.modes(w, r)
}

// FleetModes sets modes of doors, by their names, at all instances.
type FleetModes interface {
	Set(ctx context.Context, modes map[string]string) error
}

// scopeOfModes sets modes at the other instances if the query asks for it, and returns the
// addition to the audit trail.
func (s *server) scopeOfModes(r *http.Request, changes map[string]engine.Mode) (string, error) {
	switch scope := r.URL.Query().Get("scope"); {
	case scope == "", scope == traffic.ScopeInstance:
		return "", nil
	case scope != traffic.ScopeFleet:
		return "", problem(http.StatusBadRequest, "scope is %.40q; want fleet or instance", scope)
	case s.FleetModes == nil:
		return "", problem(http.StatusNotFound, "this instance reads no modes from Redis: without published rules it needs follow_modes, and with publish_public_key there are none, because modes have no signatures; change the modes of each instance at its admin address with its token: koalagate instances lists their hosts")
	}
	texts := make(map[string]string, len(changes))
	for door, mode := range changes {
		texts[door] = string(mode)
	}
	if err := s.FleetModes.Set(r.Context(), texts); err != nil {
		return "", fmt.Errorf("this instance keeps its modes, and others may follow or not: %w", err)
	}
	return ", at all instances", nil
}
