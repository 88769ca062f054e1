package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/jsontext"
)

const headerRules = `
rule : [direct] [black=1] [time=1; count=0;] [result=2; return=100]
rule : [direct] [white=1] [time=1; count=0;] [result=1; return=101]
rule : [count] [k=+] [time=90; count=1;] [result=2; return=201]
rule : [count] [q=+] [time=90; count=1;] [result=2; return=202; quiet=1]
rule : [count] [c=+] [time=90; count=1;] [result=3; return=203]
rule : [count] [own=+] [time=90; count=1;] [result=4; return=204]
rule : [count] [named=+] [time=90; count=1;] [result=2; return=205; name=posts.per-day]
rule : [direct] [pass=1] [] [result=1; return=206; name=pass]
rule : [count] [mark=+] [time=90; count=1] [result=2; return=207; mark=near]
rule : [count] [still=+] [time=90; count=1] [result=2; return=208; mark=near; quiet=1]`

const ownResult = `4 : {"Err_no":10, "Http_status":418, "Headers":{"X-Tea":"pot"}, "Body":"short and stout"}` + "\n"

func TestClientHeaders(t *testing.T) {
	for _, c := range []struct {
		name  string
		param string
		take  int
		shown engine.Presentation
		want  string
	}{
		{"allowed", "k", 1, engine.Presentation{}, `X-Koala-Decision: allow|X-Koala-Result: 1|RateLimit-Policy: "r201";q=1;w=90|RateLimit: "r201";r=0;t=90|RateLimit-Limit: 1|RateLimit-Remaining: 0|RateLimit-Reset: 90`},
		{"refused", "k", 2, engine.Presentation{}, `X-Koala-Decision: deny|X-Koala-Rule: 201|X-Koala-Result: 2|RateLimit-Policy: "r201";q=1;w=90|RateLimit: "r201";r=0;t=90|RateLimit-Limit: 1|RateLimit-Remaining: 0|RateLimit-Reset: 90|Retry-After: 90`},
		{"draft 10 only", "k", 1, engine.Presentation{Quota: engine.QuotaDraft10}, `X-Koala-Decision: allow|X-Koala-Result: 1|RateLimit-Policy: "r201";q=1;w=90|RateLimit: "r201";r=0;t=90`},
		{"the older three only", "k", 1, engine.Presentation{Quota: engine.QuotaLegacy, HideDecision: true}, `RateLimit-Limit: 1|RateLimit-Remaining: 0|RateLimit-Reset: 90`},
		{"no quota", "k", 2, engine.Presentation{Quota: engine.QuotaNone, HideDecision: true}, `Retry-After: 90`},
		{"quiet rules hide the quota", "q", 1, engine.Presentation{}, `X-Koala-Decision: allow|X-Koala-Result: 1`},
		{"challenges hide the quota", "c", 2, engine.Presentation{}, `X-Koala-Decision: challenge|X-Koala-Rule: 203|X-Koala-Result: 3`},
		{"direct rules have none", "black", 1, engine.Presentation{}, `X-Koala-Decision: deny|X-Koala-Rule: 100|X-Koala-Result: 2`},
		{"a white list decides", "white", 1, engine.Presentation{}, `X-Koala-Decision: allow|X-Koala-Rule: 101|X-Koala-Result: 1`},
		{"a name replaces the number in the quota", "named", 2, engine.Presentation{}, `X-Koala-Decision: deny|X-Koala-Rule: 205|X-Koala-Result: 2|RateLimit-Policy: "posts.per-day";q=1;w=90|RateLimit: "posts.per-day";r=0;t=90|RateLimit-Limit: 1|RateLimit-Remaining: 0|RateLimit-Reset: 90|Retry-After: 90`},
		{"the number of a named direct rule", "pass", 1, engine.Presentation{}, `X-Koala-Decision: allow|X-Koala-Rule: 206|X-Koala-Result: 1`},
		{"a rule with a mark", "mark", 1, engine.Presentation{}, `X-Koala-Decision: allow|X-Koala-Result: 1|RateLimit-Policy: "r207";q=1;w=90|RateLimit: "r207";r=0;t=90|RateLimit-Limit: 1|RateLimit-Remaining: 0|RateLimit-Reset: 90`},
		{"a rule that has set its mark", "mark", 2, engine.Presentation{}, `X-Koala-Decision: allow|X-Koala-Result: 1|RateLimit-Policy: "r207";q=1;w=90|RateLimit: "r207";r=0;t=90|RateLimit-Limit: 1|RateLimit-Remaining: 0|RateLimit-Reset: 90`},
		{"a quiet rule with a mark", "still", 2, engine.Presentation{}, `X-Koala-Decision: allow|X-Koala-Result: 1`},
		{"nothing matched", "none", 1, engine.Presentation{}, `X-Koala-Decision: none|X-Koala-Result: 0`},
		{"an entry's own headers", "own", 2, engine.Presentation{Quota: engine.QuotaNone}, `X-Koala-Decision: deny|X-Koala-Rule: 204|X-Koala-Result: 4|Retry-After: 90|X-Tea: pot`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t, headerRules, ownResult)
			var d *engine.Decision
			for range c.take {
				d = decide(t, e, engine.Take, input(1, c.param, "1"))
			}
			var lines []string
			for _, h := range d.ClientHeaders(nil, c.shown) {
				lines = append(lines, h.Name+": "+h.Value)
			}
			if got := strings.Join(lines, "|"); got != c.want {
				t.Errorf("headers\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// A valid rule may have a bucket that fills for longer than a time.Duration holds. The
// headers then have the longest Duration, and never an overflow.
func TestTimesAreAtMostTheLongestDuration(t *testing.T) {
	e := newEngine(t, `rule : [token] [k=+] [time=31622400; count=1; burst=280000] [result=2; return=1]`)
	decide(t, e, engine.Take, input(280_000, "k", "a"))
	d := decide(t, e, engine.Take, input(1000, "k", "a"))
	var lines []string
	for _, h := range d.ClientHeaders(nil, engine.Presentation{Quota: engine.QuotaLegacy, HideDecision: true}) {
		lines = append(lines, h.Name+": "+h.Value)
	}
	const want = "RateLimit-Limit: 280000|RateLimit-Remaining: 0|RateLimit-Reset: 9223372037|Retry-After: 9223372037"
	if got := strings.Join(lines, "|"); got != want {
		t.Errorf("headers %s; want %s", got, want)
	}
}

func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		name, param string
		take        int
		status      int
		body        string
	}{
		{"by a counter", "k", 2, 429, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["r201"]}`},
		{"by a counter with a name", "named", 2, 429, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["posts.per-day"]}`},
		{"by a black list", "black", 1, 403, `{"type":"about:blank","title":"Forbidden","status":403}`},
		{"by a challenge", "c", 2, 403, `{"type":"about:blank","title":"Forbidden","status":403,"challenge":{"vcode_len":4,"vcode_type":0}}`},
		{"in an entry's own words", "own", 2, 418, `short and stout`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t, headerRules, ownResult)
			var d *engine.Decision
			for range c.take {
				d = decide(t, e, engine.Take, input(1, c.param, "1"))
			}
			if r := d.Refusal(); r.Status != c.status || string(r.Body) != c.body {
				t.Errorf("%d %s\nwant %d %s", r.Status, r.Body, c.status, c.body)
			}
		})
	}
}

func TestProblemIsValidJSON(t *testing.T) {
	for _, detail := range []string{
		"a \"quoted\"\nline \x00 and <tags> & back\\slashes", "验证码", "not \xff UTF-8", "\u2028", "\x7f", "plain", "",
	} {
		r := engine.Problem(400, detail)
		want, err := json.Marshal(struct {
			Type   string `json:"type"`
			Title  string `json:"title"`
			Status int    `json:"status"`
			Detail string `json:"detail,omitempty"`
		}{"about:blank", "Bad Request", 400, detail})
		if want = jsontext.AppendEscaped(nil, want); err != nil || string(r.Body) != string(want) {
			t.Errorf("%q: %s; want %s, %v", detail, r.Body, want, err)
		}
	}
}
