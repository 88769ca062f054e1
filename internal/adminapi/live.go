package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/access"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/traffic"
)

// live are the routes about the traffic.
var live = []route{
	{http.MethodGet, "events", access.Read, light, (*server).events},
	{http.MethodGet, "traffic", access.Read, brief, (*server).traffic},
	{http.MethodGet, "top", access.Read, brief, (*server).top},
}

// traffic answers with the traffic of the last hour.
func (s *server) traffic(w http.ResponseWriter, r *http.Request) error {
	switch scope := r.URL.Query().Get("scope"); scope {
	case "", traffic.ScopeFleet:
		return done(w, r, s.Traffic.Hour(r.Context()))
	case traffic.ScopeInstance:
		return done(w, r, s.Traffic.Own())
	default:
		return problem(http.StatusBadRequest, "scope is %.40q; want fleet or instance", scope)
	}
}

// ScopeHeader names the header with the instances whose calls or changes an answer has:
// fleet or instance.
const ScopeHeader = "Koalagate-Scope"

func stateScope(w http.ResponseWriter, isFleet bool) {
	scope := traffic.ScopeInstance
	if isFleet {
		scope = traffic.ScopeFleet
	}
	w.Header().Set(ScopeHeader, scope)
}

// top answers with the heaviest identities.
func (s *server) top(w http.ResponseWriter, r *http.Request) error {
	q, err := s.topQuestion(r.URL.Query())
	if err != nil {
		return problem(http.StatusBadRequest, "%v", err)
	}
	rows, isFleet := s.Heavy.Top(r.Context(), q)
	if len(rows) == 0 {
		if err := s.checkRule(q.Rule); err != nil {
			return err
		}
	}
	stateScope(w, isFleet)
	return done(w, r, rows)
}

// topQuestion reads the question of a query.
func (s *server) topQuestion(query url.Values) (q heavy.Question, err error) {
	if err := onlyParameters(query, "rule", "by", "since", "limit"); err != nil {
		return q, err
	}
	if q.Rule, err = s.ruleOf(query); err != nil {
		return q, err
	}
	if text := query.Get("by"); text != "" {
		if q.By, err = heavy.ParseKind(text); err != nil {
			return q, fmt.Errorf("by: %w", err)
		}
	}
	if text := query.Get("since"); text != "" {
		if q.Since, err = time.ParseDuration(text); err != nil || q.Since < time.Minute || q.Since > time.Hour {
			return q, fmt.Errorf("since is %.40q; want 1m … 1h", text)
		}
	}
	if text := query.Get("limit"); text != "" {
		if q.Most, err = strconv.Atoi(text); err != nil || q.Most < 1 || q.Most > heavy.MaxRows {
			return q, fmt.Errorf("limit is %.40q; want 1 … %d", text, heavy.MaxRows)
		}
	}
	return q, nil
}

// ruleOf returns the number of the rule that the parameter rule of a query refers to, 0 without one.
func (s *server) ruleOf(query url.Values) (int64, error) {
	ref := RuleRef(query.Get("rule"))
	if number, known := ref.Number(); known && ref != "" && number < 1 {
		return 0, fmt.Errorf("rule is %d; want the number or the name of a rule", number)
	}
	return s.numberOf(ref)
}

// checkRule returns an error if a question about a rule found nothing because there is no such
// rule; 0 is a question about all rules.
func (s *server) checkRule(number int64) error {
	if number == 0 {
		return nil
	}
	_, err := s.Desk.Rule(strconv.FormatInt(number, 10))
	return err
}

// onlyParameters returns an error if a query has parameters other than these.
func onlyParameters(query url.Values, names ...string) error {
	for name := range query {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown parameter %.40q; want %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

const (
	// eventTimeout bounds the writing of one event, so that a reader that does not read
	// loses its connection.
	eventTimeout = 10 * time.Second
	// eventRetry tells browsers when to connect again.
	eventRetry = "retry: 2000\n\n"
)

// events sends events until the caller leaves or the instance ends, as server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	subscription, err := s.Traffic.Subscribe()
	switch {
	case errors.Is(err, traffic.ErrFull), errors.Is(err, traffic.ErrClosed):
		w.Header().Set("Retry-After", "5")
		return problem(http.StatusServiceUnavailable, "%v", err)
	case err != nil:
		return err
	}
	defer subscription.Close()
	control := http.NewResponseController(w)
	// The server's deadlines suit a request that is answered once.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would collect events
	send := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(eventTimeout)) // without it, the server's deadline ends the stream
		if _, err := w.Write([]byte(text)); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	for text := eventRetry; send(text); {
		select {
		case <-r.Context().Done():
			return nil
		case e, open := <-subscription.Events:
			if !open {
				return nil
			}
			text = fmt.Sprintf("event: %s\ndata: %s\n\n", e.Name, e.Data)
		}
	}
	return nil
}

// RulesEvent is the event about the rules in force.
type RulesEvent struct {
	At         time.Time `json:"at"`
	Ready      bool      `json:"ready"`
	Reason     string    `json:"reason,omitempty"` // why the instance is not ready
	Generation uint64    `json:"generation"`
	Hash       string    `json:"hash"`
	Rules      int       `json:"rules"`
	LastError  string    `json:"last_error"` // why newer rules are not in force
	// The published version; all are empty for rules of files.
	Version     uint64          `json:"version,omitempty"`
	Author      string          `json:"author,omitempty"`
	Note        string          `json:"note,omitempty"`
	PublishedAt *time.Time      `json:"published_at,omitempty"`
	Changes     *reload.Changes `json:"changes,omitempty"` // by the last reload
}

// RulesEventOf returns the event about a state of the rules.
func RulesEventOf(s *reload.State) *RulesEvent {
	e := &RulesEvent{
		At: time.Now().UTC(), Ready: s.IsReady(), Reason: s.Unready,
		Generation: s.Generation, Hash: s.Hash, Rules: s.Rules, LastError: s.LastError, Changes: s.Changes,
	}
	if r := s.Release; r != nil {
		at := r.At.UTC()
		e.Version, e.Author, e.Note, e.PublishedAt = r.Version, r.Author, r.Note, &at
	}
	return e
}
