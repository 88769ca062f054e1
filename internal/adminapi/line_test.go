package adminapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

// leaving is a context whose caller leaves after a number of steps.
type leaving struct {
	context.Context
	leave context.CancelFunc
	steps int
}

func (l *leaving) Value(key any) any {
	if l.steps--; l.steps == 0 {
		l.leave()
	}
	return l.Context.Value(key)
}

// A caller who leaves frees the place, wherever the work is: while a body is read, parsed,
// explained or answered.
func TestLeavingFreesThePlace(t *testing.T) {
	s := newStage(t, nil)
	text := "[rules]\n" + strings.Repeat("rule : [count] [act=post; uid=+] [time=3600; count=2] [result=2; return=201]\n", 5_000)
	long := draft(t, text)
	asked := map[string]string{
		"POST check": long, "POST explain": `{"params":{"uid":"ann"},` + long[1:], "POST replay": `{"since_ms":60000,` + long[1:],
		"POST format": strings.TrimSuffix(strings.TrimPrefix(long, `{"files":[`), `]}`), "GET rules": "", "GET exceptions?search=ann": "", "POST why": `{"params":{"uid":"ann"}}`,
	}
	for line, body := range asked {
		for steps := 1; steps <= 1<<20; steps *= 8 {
			ctx, leave := context.WithCancel(t.Context())
			l := &leaving{ctx, leave, steps}
			method, path, _ := strings.Cut(line, " ")
			r := httptest.NewRequestWithContext(l, method, Prefix+path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+changeToken)
			func() {
				defer func() { _ = recover() }() // of http.ErrAbortHandler
				s.handler.ServeHTTP(httptest.NewRecorder(), r)
			}()
			leave()
			if most := -20_000; l.steps < most {
				t.Errorf("%s: %d steps after its caller has left; want %d at most", line, -l.steps, -most)
			}
			if w := s.ask("POST why", `{"params":{"uid":"ann"}}`); w.Code != http.StatusOK {
				t.Fatalf("%s, left after %d steps: %d %s", line, steps, w.Code, w.Body)
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
