package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// AdminQuestion is a request to the admin address with one of the largest and worst inputs.
type AdminQuestion struct {
	Name, Method, Path, Body string // Path is whole, with /api/v1/
	NeedsToken               bool   // for changes
	Refused                  int    // the status of answers that refuse it; 0 if none does
}

const (
	// ReaderBody is somewhat less than the largest body without the token for changes, in bytes.
	ReaderBody = 4<<20 - 64<<10
	changeBody = 60 << 20 // somewhat less than the largest body with it
)

// AdminQuestions returns requests to each path of the admin address that takes long, for
// instances whose rules count by uid.
func AdminQuestions() []AdminQuestion {
	line := "rule : [count] [act=post; uid=+; ip=~; kind=%d] [time=3600; count=2] [result=2; return=%d]\n"
	var valid strings.Builder
	valid.WriteString("[params]\nuid : header X-User-Id\n[result]\n0 : {}\n1 : {}\n2 : {}\n[rules]\n")
	for i := 1; valid.Len() < ReaderBody*9/10; i++ {
		fmt.Fprintf(&valid, line, i, i)
	}
	draft := func(text string) string {
		document := mustJSON(map[string]any{"files": []map[string]string{{"name": "rules.conf", "text": text}}})
		return document[1:]
	}
	params := make(map[string]string)
	for i := range 150_000 {
		params[fmt.Sprint("p", i)] = "v"
	}
	few := `{"params":{"uid":"ann","act":"post","kind":"1"}`
	// Of parameters that the rules in force know: others are refused.
	known := `{"params":{"uid":"ann","kind":"2"}}`
	// Fifteen words that each exception of Operated has, many times, and one that none has.
	words := strings.Repeat("a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+", 1000) + "none"
	post := func(name, path, body string) AdminQuestion {
		return AdminQuestion{Name: name, Method: http.MethodPost, Path: api + path, Body: body}
	}
	// As `koalagate exception add --file` sends them. They end at once, so that they can be added
	// again.
	batch := make([]string, 1000)
	for i := range batch {
		batch[i] = fmt.Sprintf(`{"rule":1,"identity":{"uid":"batch-%d"},"what":"allow"}`, i)
	}
	with := func(q AdminQuestion) AdminQuestion { q.NeedsToken = true; return q }
	refused := func(status int, q AdminQuestion) AdminQuestion { q.Refused = status; return q }
	return []AdminQuestion{
		post("check of valid rules", "check", "{"+draft(valid.String())),
		post("check of faulty rules", "check", "{"+draft("[rules]\n"+strings.Repeat("rule : [cuont] [] [] []\n", ReaderBody/28))),
		post("check of short lines", "check", "{"+draft(strings.Repeat("#\n", ReaderBody/4))),
		with(post("check with the token for changes", "check", "{"+draft(strings.Repeat("#\n", changeBody/4)))),
		post("format", "format", mustJSON(map[string]string{"name": "rules.conf", "text": valid.String()})),
		post("explain by a draft", "explain", few+","+draft(valid.String())),
		refused(http.StatusBadRequest, post("explain with many parameters", "explain", mustJSON(map[string]any{"params": params}))),
		post("explain by the rules in force", "explain", known),
		post("why of an identity", "why", known),
		post("why of a request", "why", `{"request":{"target":"/","peer":"192.0.2.1","headers":{"X-User-Id":["ann"]}}}`),
		with(post("replay", "replay", `{"since_ms":3600000,`+draft(valid.String()))),
		refused(http.StatusBadRequest, post("exceptions/prepare", "exceptions/prepare", `{"exceptions":[`+strings.Repeat(`{"rule":1,"identity":{"uid":"a"}},`, ReaderBody/40)+`{}]}`)),
		refused(http.StatusConflict, with(post("exceptions in a batch", "exceptions", `{"for_ms":1000,"exceptions":[`+strings.Join(batch, ",")+`]}`))), // another caller has changed exceptions since
		apiQuestion("rules"), apiQuestion("bans"), apiQuestion("exceptions?search=" + words), apiQuestion("top?limit=100"), apiQuestion("traffic"), apiQuestion("audit"), apiQuestion("words"), apiQuestion("openapi.yaml"),
		pageQuestion("/metrics"), pageQuestion("/debug/pprof/heap?gc=1"), pageQuestion("/debug/pprof/goroutine?debug=2"), pageQuestion("/debug/pprof/profile?seconds=1"),
	}
}

// api is the beginning of the paths of the admin API.
const api = "/api/v1/"

// apiQuestion returns a question to a path of the admin API, and pageQuestion to any path.
func apiQuestion(path string) AdminQuestion {
	return AdminQuestion{Name: path, Method: http.MethodGet, Path: api + path}
}

func pageQuestion(path string) AdminQuestion {
	return AdminQuestion{Name: path, Method: http.MethodGet, Path: path}
}

// mustJSON returns the document of a map of texts, which never fails.
func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Ask sends a question to an instance, reads the whole answer, and returns its status.
func (k *Koalagate) Ask(ctx context.Context, q *AdminQuestion) (int, error) {
	r, err := http.NewRequestWithContext(ctx, q.Method, "http://"+k.Admin+q.Path, strings.NewReader(q.Body))
	if err != nil {
		return 0, err
	}
	if q.NeedsToken {
		r.Header.Set("Authorization", "Bearer "+k.ChangeToken())
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
