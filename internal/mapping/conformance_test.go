package mapping

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/rules"
)

// mappingCase is one line of testdata/mapping.jsonl: a rule file, a door, a request, and
// the exact parameters that must result.
type mappingCase struct {
	Name    string
	File    string
	Door    string
	Request struct {
		Method  string
		Path    string
		Host    string
		Scheme  string
		Peer    string
		Headers [][2]string
		Context map[string]string
		Domain  string
		Entries [][2]string
	}
	Want map[string]string
}

func TestConformance(t *testing.T) {
	file, err := os.Open("testdata/mapping.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cases := 0
	for lines := bufio.NewScanner(file); lines.Scan(); cases++ {
		var c mappingCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("line %d: %v", cases+1, err)
		}
		t.Run(c.Name, func(t *testing.T) {
			var p rules.Params
			if err := Params(parse(t, c.File), c.request(), &Options{}, &p); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.Want, asMap(&p)); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
		})
	}
	if cases < 39 {
		t.Errorf("%d cases, want all 39", cases)
	}
}

func (c *mappingCase) request() *Request {
	r := &Request{
		Door: c.Door, Method: c.Request.Method, Path: c.Request.Path, Host: c.Request.Host,
		Scheme: c.Request.Scheme, Peer: c.Request.Peer, Headers: c.headers(),
		Context: c.Request.Context, Domain: c.Request.Domain,
	}
	for _, e := range c.Request.Entries {
		r.Entries = append(r.Entries, Entry{e[0], e[1]})
	}
	return r
}

// headers returns the headers of the case.
func (c *mappingCase) headers() Headers {
	web := http.Header{}
	for _, h := range c.Request.Headers {
		web.Add(h[0], h[1])
	}
	return HTTPHeaders(web)
}

// parse parses a rule file.
func parse(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatalf("the rule file has errors: %v\n%s", findings, text)
	}
	return set
}

func asMap(p *rules.Params) map[string]string {
	m := make(map[string]string, p.Len())
	for _, parameter := range p.List() {
		m[parameter.Name] = parameter.Value
	}
	return m
}
