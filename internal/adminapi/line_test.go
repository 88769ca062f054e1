package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/rules"
)

// held is a body that does not arrive before release is closed. begun is closed when
// somebody reads it.
type held struct {
	begun, release chan struct{}
	io.Reader
}

func (h *held) Read(b []byte) (int, error) {
	select {
	case <-h.begun:
	default:
		close(h.begun)
	}
	<-h.release
	return h.Reader.Read(b)
}

// lengthyLines are requests of all routes that take seconds.
func lengthyLines() []string {
	var list []string
	names := strings.NewReplacer("{number}", "1", "{from}", "1", "{to}", "2", "{id}", "X")
	for _, one := range routes {
		if one.work == lengthy || one.work == byBody {
			list = append(list, one.method+" "+names.Replace(one.path))
		}
	}
	return list
}

// While one request has the place, no body of another one is read: it waits for a moment, and
// gets a 429. Requests that take milliseconds do not wait. The end of the first one frees the
// place.
func TestOnePlaceInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		body := &held{make(chan struct{}), make(chan struct{}), strings.NewReader(draft(t, ruleFile))}
		first := httptest.NewRecorder()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r := httptest.NewRequest(http.MethodPost, Prefix+"check", body)
			r.Header.Set("Authorization", "Bearer "+changeToken) // it may have the place for longer
			s.handler.ServeHTTP(first, r)
		}()
		<-body.begun
		for _, line := range lengthyLines() {
			for token, wait := range map[string]time.Duration{"": readerWait, changeToken: changerWait} {
				method, path, _ := strings.Cut(line, " ")
				unread := &held{begun: make(chan struct{})}
				r := httptest.NewRequest(method, Prefix+path, unread)
				r.Header.Set("Authorization", "Bearer "+token)
				w, begin := httptest.NewRecorder(), time.Now()
				s.handler.ServeHTTP(w, r)
				if w.Code == http.StatusUnauthorized && token == "" {
					continue
				}
				if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || time.Since(begin) != wait {
					t.Errorf("%s: %d %v after %v; want 429 with Retry-After after %v", line, w.Code, w.Header(), time.Since(begin), wait)
				}
			}
		}
		begin := time.Now()
		for _, line := range []string{"GET state", "GET words", "GET audit"} {
			if w := s.ask(line, ""); w.Code != http.StatusOK || time.Since(begin) > 0 {
				t.Errorf("%s: %d after %v; want 200 at once", line, w.Code, time.Since(begin))
			}
		}
		if w := s.ask("POST exceptions", `{"exceptions":[]}`, "Authorization", "Bearer "+changeToken); w.Code != http.StatusOK || time.Since(begin) > 0 {
			t.Errorf("a short list of exceptions: %d %s after %v; want 200 at once", w.Code, w.Body, time.Since(begin))
		}
		close(body.release)
		<-ended
		if first.Code != http.StatusOK {
			t.Errorf("the first one: %d %s", first.Code, first.Body)
		}
		if w := s.ask("POST check", draft(t, ruleFile)); w.Code != http.StatusOK {
			t.Errorf("afterwards: %d %s", w.Code, w.Body)
		}
	})
}

// leaving is a context that counts the pauses of work, and whose caller leaves at one of them.
type leaving struct {
	context.Context
	leave  context.CancelFunc
	pauses int
	last   int
}

func (l *leaving) Err() error {
	if l.pauses++; l.pauses == l.last {
		l.leave()
	}
	return l.Context.Err()
}

// asking is a stage with many rules and exceptions, and questions about them, one for each route
// that needs the place, as `METHOD path` with its body. internal/fleet tests the questions about
// versions.
type asking struct {
	*stage
	set   *rules.Set
	many  int
	asked map[string]string
	// excepted is the rule set that the exceptions are for.
	excepted *rules.Set
}

func newAsking(t *testing.T, many int) *asking {
	t.Helper()
	var written strings.Builder
	written.WriteString("[result]\n0 : {}\n1 : {}\n2 : {}\n[rules]\n")
	for i := 1; i <= many; i++ {
		fmt.Fprintf(&written, "rule : [count] [act=post; uid=+; kind=%d] [time=3600; count=2] [result=2; return=%d]\n", i, i)
	}
	text := written.String()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	a := &asking{stage: newStage(t, nil), set: set, many: many}
	a.engine.Swap(set)
	additions, err := json.Marshal(Additions{ForMS: time.Hour.Milliseconds(), Exceptions: additionsOf(manyExceptions(many, "bob"))})
	if err != nil {
		t.Fatal(err)
	}
	long := draft(t, text)
	a.except()
	a.asked = map[string]string{
		"POST check": long, "POST explain": `{"params":{"uid":"ann"},` + long[1:], "POST replay": `{"since_ms":60000,` + long[1:],
		"POST format": strings.TrimSuffix(strings.TrimPrefix(long, `{"files":[`), `]}`), "GET rules": "",
		"POST exceptions/prepare": string(additions), "POST exceptions": string(additions),
		"GET exceptions?search=ann": "", "GET exceptions?search=nobody": "", "POST why": `{"params":{"uid":"ann","act":"post","kind":"1"}}`,
	}
	for _, line := range lengthyLines() {
		isAsked := slices.ContainsFunc(slices.Collect(maps.Keys(a.asked)), func(one string) bool { return one == line || strings.HasPrefix(one, line+"?") })
		isOfVersions := slices.ContainsFunc(published, func(one route) bool { return strings.HasPrefix(line, one.method+" "+strings.Split(one.path, "/")[0]) })
		if isAsked == isOfVersions {
			t.Errorf("%s: is it a question about versions? %v; is it asked? %v", line, isOfVersions, isAsked)
		}
	}
	return a
}

// isAdding reports whether the question adds exceptions.
func isAdding(line string) bool { return line == "POST exceptions" }

// hasAdded reports whether a question has added exceptions to the first ones.
func (a *asking) hasAdded() bool { return a.server.Exceptions.Counts()[exceptions.Allow] > a.many }

// except removes the exceptions that a question has added.
func (a *asking) except() {
	a.t.Helper()
	if a.set == a.excepted && !a.hasAdded() {
		return
	}
	a.excepted = a.set
	a.server.Exceptions = exceptions.New(exceptions.Options{Max: 2 * a.many})
	a.server.Exceptions.Use(a.set)
	if _, err := a.server.Exceptions.Add(a.t.Context(), manyExceptions(a.many, "ann")); err != nil {
		a.t.Fatal(err)
	}
}

// answer answers a question by its route.
func (a *asking) answer(ctx context.Context, line string) (err error) {
	a.t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r := httptest.NewRequestWithContext(ctx, method, Prefix+path, strings.NewReader(a.asked[line]))
	r.Header.Set("Authorization", "Bearer "+changeToken)
	for _, one := range routes {
		if one.method == method && Prefix+one.path == r.URL.Path {
			defer func() {
				if aborted := recover(); aborted != nil {
					err = aborted.(error)
				}
			}()
			return one.answer(a.server, httptest.NewRecorder(), r)
		}
	}
	a.t.Fatalf("no route answers %s", line)
	return nil
}

// manyExceptions returns n exceptions from the first rule, of users whose names begin alike.
func manyExceptions(n int, user string) []exceptions.Exception {
	list := make([]exceptions.Exception, n)
	for i := range list {
		list[i] = exceptions.Exception{
			Rule: 1, Identity: map[string]string{"act": "post", "uid": fmt.Sprint(user, i), "kind": "1"}, What: exceptions.Allow, Until: time.Now().Add(time.Hour),
		}
	}
	return list
}

// additionsOf returns the additions of exceptions.
func additionsOf(list []exceptions.Exception) []Addition {
	all := make([]Addition, len(list))
	for i := range list {
		all[i] = Adding(&list[i])
	}
	return all
}

// A caller who leaves frees the place at once, wherever the work is: while a body is read,
// parsed, explained or answered. Exceptions that were added by then come into force.
func TestLeavingFreesThePlace(t *testing.T) {
	const slack = 3
	a := newAsking(t, 1_000)
	for line := range a.asked {
		leaveAt := func(last int) int {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			a.except()
			l := &leaving{ctx, leave, 0, last}
			err := a.answer(l, line)
			if ended := errors.Is(err, context.Canceled) || errors.Is(err, http.ErrAbortHandler); ended != (last > 0) || !ended && err != nil {
				t.Errorf("%s, left at pause %d: %v", line, last, err)
			}
			return l.pauses
		}
		whole := leaveAt(0)
		if whole < a.many/2 {
			t.Errorf("%s: %d pauses; want one for each of %d rules or exceptions", line, whole, a.many)
		}
		for _, last := range []int{1, whole / 7, whole / 3, whole / 2, whole * 2 / 3, whole * 6 / 7} {
			if n := leaveAt(last); n > last+slack && (!isAdding(line) || !a.hasAdded()) {
				t.Errorf("%s: %d pauses, of %d, after its caller has left at %d; want the end at once", line, n-last, whole, last)
			}
		}
	}
}

// Without the token for changes, a body has 4 MiB at most.
func TestBodiesOfReaders(t *testing.T) {
	s := newStage(t, nil)
	for _, line := range lengthyLines() {
		if !strings.HasPrefix(line, "POST ") {
			continue
		}
		body := `"` + strings.Repeat("x", maxReaderBody)
		if w := s.ask(line, body); w.Code != http.StatusRequestEntityTooLarge && w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %.200s; want 413", line, w.Body)
		}
	}
	long := draft(t, "#"+strings.Repeat("x\n#", maxReaderBody/3))
	if w := s.ask("POST check", long, "Authorization", "Bearer "+changeToken); w.Code != http.StatusOK {
		t.Errorf("with the token for changes: %d %s", w.Code, w.Body)
	}
}

// No question meets more counting rules than a request at the doors may, which max_rules bounds:
// neither by the rules in force nor by a draft.
func TestQuestionsMeetMaxRules(t *testing.T) {
	var counting strings.Builder
	for i := range 3 {
		fmt.Fprintf(&counting, "rule : [count] [uid=+; act=post] [time=60; count=9] [result=2; return=%d]\n", i+1)
	}
	text := "[params]\nuid : header X-User-Id\n[rules]\n" + counting.String() + "\n[result]\n0 : {}\n1 : {}\n2 : {}\n"
	set, list := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if list.HasErrors() {
		t.Fatal(list)
	}
	for most, want := range map[int]int{2: http.StatusBadRequest, 3: http.StatusOK} {
		s := newStage(t, func(o *Options) {
			o.Desk = operations.New(operations.Options{
				Engine: engine.New(set, engine.WithMaxRules(most, nil)), MaxRules: most, Log: operations.DecisionLog{Path: decisionLog(t), Every: 1},
			})
		})
		files := strings.TrimPrefix(draft(t, text), "{")
		for line, body := range map[string]string{
			"POST why":                `{"params":{"uid":"ann","act":"post"}}`,
			"POST explain":            `{"params":{"uid":"ann","act":"post"}}`,
			"POST explain by a draft": `{"params":{"uid":"ann","act":"post"},` + files,
			"POST replay":             `{"since_ms":60000,` + files,
		} {
			w := s.ask(strings.TrimSuffix(line, " by a draft"), body, "Authorization", "Bearer "+changeToken)
			if w.Code != want || want == http.StatusBadRequest && !strings.Contains(w.Body.String(), strconv.Itoa(most)) {
				t.Errorf("max_rules %d, %s: %d %.300s; want %d", most, line, w.Code, w.Body, want)
			}
		}
	}
}

// Questions have the bounds of the doors.
func TestQuestionsHaveTheBoundsOfTheDoors(t *testing.T) {
	s := newStage(t, nil)
	many := make(map[string]string)
	for i := range 65 {
		many["p"+strconv.Itoa(i)] = "v"
	}
	params, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	wide := strings.Repeat("x", maxHeader/2)
	for _, path := range []string{"explain", "why"} {
		for body, want := range map[string]string{
			`{"params":` + string(params) + `}`:                                                "max_params",
			`{"request":{"target":"/","headers":{"A":["` + wide + `"],"B":["` + wide + `"]}}}`: "http_max_header",
		} {
			if w := s.ask("POST "+path, body); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: %d %.300s; want 400 with %s", path, w.Code, w.Body, want)
			}
		}
	}
}
