package operators_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// scene contains the programs for testing an example: one instance with Redis, and
// both gateways.
type scene struct {
	*testing.T
	koalagate    *e2e.Koalagate
	envoy, nginx *e2e.Gateway
}

// take calls Koala's API, and checks the Err_no of its answer.
func (s *scene) take(query, wantErrNo string) {
	s.Helper()
	r := rig.WantStatus(s.T, http.StatusOK, "GET", "http://"+s.koalagate.HTTP+"/rule/take?"+query)
	if !strings.Contains(r.Body, `"Err_no":`+wantErrNo+",") {
		s.Fatalf("take %s: %s, want Err_no %s", query, r.Body, wantErrNo)
	}
}

// exampleTests checks on the real programs what each example promises. An example
// without a test fails TestExamples.
var exampleTests = map[string]func(*scene){
	"gateway.conf": func(s *scene) {
		for range 10 {
			rig.WantStatus(s.T, 200, "POST", s.nginx.URL+"/login")
		}
		rig.WantStatus(s.T, 429, "POST", s.nginx.URL+"/login")
		rig.WantStatus(s.T, 429, "POST", s.envoy.URL+"/login") // one counter for both
		rig.WantStatus(s.T, 200, "GET", s.envoy.URL+"/login")
	},
	"envoy-descriptors.conf": func(s *scene) {
		for range 10 {
			rig.WantStatus(s.T, 200, "GET", s.envoy.URL+"/") // the sample sends only remote_address
		}
		rig.WantStatus(s.T, 429, "GET", s.envoy.URL+"/")
		rig.WantStatus(s.T, 200, "GET", s.nginx.URL+"/") // no descriptors there
		// Koala's API replaces descriptors of other configurations.
		for range 3 {
			s.take("domain=public&remote_address=203.0.113.7&path=/login", "0")
		}
		s.take("domain=public&remote_address=203.0.113.7&path=/login", "10")
		s.take("domain=public&remote_address=203.0.113.7&path=/", "0")
		s.take("domain=public&remote_address=203.0.113.7&path=/login&tier=gold", "0")
		s.take("domain=other&remote_address=203.0.113.7&path=/login", "0")
	},
	"one-vote-per-post.conf": func(s *scene) {
		rig.WantStatus(s.T, 200, "POST", s.envoy.URL+"/posts/1/votes", "X-User-Id: ann")
		for _, g := range []*e2e.Gateway{s.envoy, s.nginx} {
			r := rig.WantStatus(s.T, 409, "POST", g.URL+"/posts/1/votes", "X-User-Id: ann")
			if r.Body != "You have voted on this post." || r.Header.Get("Content-Type") != "text/plain" || r.Header.Get("RateLimit") != "" {
				s.Errorf("body %q, headers %v; want the entry's body and type, and no quota", r.Body, r.Header)
			}
		}
		rig.WantStatus(s.T, 200, "POST", s.nginx.URL+"/posts/2/votes", "X-User-Id: ann")
		rig.WantStatus(s.T, 200, "POST", s.nginx.URL+"/posts/1/votes", "X-User-Id: bob")
		rig.WantStatus(s.T, 401, "POST", s.nginx.URL+"/posts/1/votes")
		rig.WantStatus(s.T, 401, "POST", s.envoy.URL+"/posts/1/votes")
	},
	"popup-every-two-hours.conf": func(s *scene) {
		s.take("act=popup&uid=ann", "0")
		s.take("act=popup&uid=ann", "10")
		s.take("act=popup&uid=bob", "0")
	},
	"points-a-day.conf": func(s *scene) {
		s.take("act=earn&uid=ann&points=120", "0")
		s.take("act=earn&uid=ann&points=120", "0")
		s.take("act=earn&uid=ann&points=120", "10")
		s.take("act=earn&uid=ann&points=60", "0")
		s.take("act=earn&uid=ann&points=1", "10")
		s.take("act=earn&uid=bob&points=300", "0")
	},
	"captcha-after-ten-posts.conf": func(s *scene) {
		for range 10 {
			rig.WantStatus(s.T, 200, "POST", s.envoy.URL+"/posts", "X-User-Id: ann")
		}
		for _, g := range []*e2e.Gateway{s.envoy, s.nginx} {
			r := rig.WantStatus(s.T, 403, "POST", g.URL+"/posts", "X-User-Id: ann")
			if r.Header.Get("X-Koala-Decision") != "challenge" || r.Header.Get("RateLimit") != "" || !strings.Contains(r.Body, `"vcode_len":4`) {
				s.Errorf("headers %v, body %q; want a challenge that says its length", r.Header, r.Body)
			}
		}
		rig.WantStatus(s.T, 200, "GET", "http://"+s.koalagate.HTTP+"/rule/refund?act=post&uid=ann") // after the captcha
		rig.WantStatus(s.T, 200, "POST", s.nginx.URL+"/posts", "X-User-Id: ann")
		rig.WantStatus(s.T, 403, "POST", s.nginx.URL+"/posts", "X-User-Id: ann")
	},
	"spaced-after-thirty.conf": func(s *scene) {
		for range 30 {
			rig.WantStatus(s.T, 200, "POST", s.nginx.URL+"/posts", "X-User-Id: ann")
		}
		r := rig.WantStatus(s.T, 429, "POST", s.nginx.URL+"/posts", "X-User-Id: ann")
		if r.Header.Get("RateLimit-Policy") != `"r201";q=1;w=60` || r.Header.Get("Retry-After") == "" {
			s.Errorf("headers %v; want the policy of one a minute, and when to come back", r.Header)
		}
	},
	"soft-limits.conf": func(s *scene) {
		for i := range 100 {
			want := ""
			if i >= 80 {
				want = `"Marks":["near"`
			}
			body := rig.WantStatus(s.T, 200, "GET", "http://"+s.koalagate.HTTP+"/rule/take?act=chat&user=ann").Body
			if !strings.Contains(body, `"Err_no":0`) || want != "" && !strings.Contains(body, want) || want == "" && strings.Contains(body, "near") {
				s.Errorf("request %d of an hour: %s; want it allowed, with the mark near from the 81st on", i+1, body)
			}
		}
		rig.WantStatus(s.T, 401, "POST", s.nginx.URL+"/v1/chat")
		s.take("act=chat&user=ann", "10")
		s.take("act=chat&user=bob", "0")
	},
	"logins.conf": func(s *scene) {
		rig.WantStatus(s.T, 403, "POST", s.envoy.URL+"/login")
		for range 5 {
			rig.WantStatus(s.T, 200, "POST", s.envoy.URL+"/login", "X-Account: ann")
		}
		r := rig.WantStatus(s.T, 429, "POST", s.nginx.URL+"/login", "X-Account: ann")
		if r.Header.Get("X-Koala-Rule") != "201" {
			s.Errorf("rule %s refused, want the account's", r.Header.Get("X-Koala-Rule"))
		}
		for i := range 15 {
			rig.WantStatus(s.T, 200, "POST", s.nginx.URL+"/login", "X-Account: guess"+string(rune('a'+i)))
		}
		r = rig.WantStatus(s.T, 429, "POST", s.nginx.URL+"/login", "X-Account: another")
		if r.Header.Get("X-Koala-Rule") != "202" {
			s.Errorf("rule %s refused, want the address's", r.Header.Get("X-Koala-Rule"))
		}
		// An office's address has no limit; Koala's API gets it as a parameter.
		for i := range 30 {
			s.take("act=login&ip=192.0.2.9&account=office"+string(rune('a'+i)), "0")
		}
	},
	"api-tiers.conf": func(s *scene) {
		for tier, limit := range map[string]int{"X-Api-Key: gold-key-1": 100, "X-Api-Key: silver-key-1": 30, "X-Api-Key: ": 5} {
			for range limit {
				rig.WantStatus(s.T, 200, "GET", s.envoy.URL+"/api/things", tier)
			}
			rig.WantStatus(s.T, 429, "GET", s.envoy.URL+"/api/things", tier)
			rig.WantStatus(s.T, 429, "GET", s.nginx.URL+"/api/things", tier)
		}
		rig.WantStatus(s.T, 200, "GET", s.envoy.URL+"/api/things", "X-Api-Key: gold-key-2")
		rig.WantStatus(s.T, 401, "GET", s.envoy.URL+"/api/things", "X-Api-Key: invented")
		rig.WantStatus(s.T, 401, "GET", s.nginx.URL+"/api/things", "X-Api-Key: invented")
	},
	"api-keys.conf": func(s *scene) {
		for _, g := range []*e2e.Gateway{s.envoy, s.nginx} {
			rig.WantStatus(s.T, 200, "GET", g.URL+"/", "X-Api-Key: koala_AcmeAcmeAcmeAcmeAcmeAcmeAcmeAcme40q2Rh")
			rig.WantStatus(s.T, 403, "GET", g.URL+"/", "X-Api-Key: koala_GlobexGlobexGlobexGlobexGlobexGl4YQckE")
			for _, unknown := range []string{"", "koala_UmbrellaUmbrellaUmbrellaUmbrella1spOiX", "00b6daaaf6403edff4997c50a0333284"} {
				r := rig.WantStatus(s.T, 401, "GET", g.URL+"/", "X-Api-Key: "+unknown)
				if got := r.Header.Get("WWW-Authenticate"); got != "ApiKey" {
					s.Errorf("a request with the key %q gets WWW-Authenticate %q; want ApiKey", unknown, got)
				}
			}
		}
	},
	"api-plans.conf": func(s *scene) {
		s.take("tenant=suspended", "10")
		for range 70 { // more than a tenant without a row has
			s.take("tenant=internal", "0")
		}
		for range 60 {
			s.take("tenant=new", "0")
		}
		s.take("tenant=new", "10")
		for range 10 { // without a tenant the address counts
			rig.WantStatus(s.T, 200, "GET", s.envoy.URL+"/")
			rig.WantStatus(s.T, 200, "GET", s.nginx.URL+"/")
		}
		rig.WantStatus(s.T, 429, "GET", s.envoy.URL+"/")
		rig.WantStatus(s.T, 429, "GET", s.nginx.URL+"/")
	},
	"partner-queue.conf": func(s *scene) {
		// The door of the queue is extauthz, and no partner is set by the samples of other
		// requests, which do not wait.
		for range 20 {
			rig.WantStatus(s.T, 200, "GET", s.envoy.URL+"/")
			s.take("partner=acme", "0")
		}
	},
	"token-budget.conf": func(s *scene) {
		const ann = "domain=llm&budget=tokens&user=ann&estimate="
		s.take(ann+"60000", "0")
		s.take(ann+"60000", "10")
		s.take(ann+"20000", "0")
		s.take(ann+"20000", "0")
		s.take(ann+"0", "10")
		s.take("domain=llm&budget=tokens&user=bob&estimate=1", "0")
		for _, want := range []string{"0", "0", "0", "11"} { // four at once
			s.take("domain=llm&budget=tokens&user=bob&estimate=1", want)
		}
		s.take("domain=llm&budget=tokens&user=cid&estimate=junk", "12")
		s.take("domain=llm&budget=tokens&remote_address=203.0.113.7&estimate=5001", "10")
		s.take("domain=llm&budget=tokens&remote_address=203.0.113.7&estimate=5000", "0")
	},
	"long-downloads.conf": func(s *scene) {
		for range 5 { // one after the other
			rig.Spent(s.T, s.koalagate, "rule_no=201&act=download&ip=127.0.0.1", 0)
			rig.WantStatus(s.T, 200, "GET", s.envoy.URL+"/downloads/file")
		}
		s.take("act=download&ip=203.0.113.7", "0")
		s.take("act=download&ip=203.0.113.7", "0")
		s.take("act=download&ip=203.0.113.7", "10")
	},
	"failed-logins.conf": func(s *scene) {
		rig.WantStatus(s.T, 403, "POST", s.envoy.URL+"/login")
		for range 10 { // the application answers 200
			rig.Spent(s.T, s.koalagate, "rule_no=201&act=login&account=ann", 0)
			rig.WantStatus(s.T, 200, "POST", s.envoy.URL+"/login", "X-Account: ann")
		}
		rig.Spent(s.T, s.koalagate, "rule_no=202&act=login&account=ann", 0)
	},
	"edge-quota.conf": func(s *scene) {
		// Its limit is for Envoys that decide by themselves, which the tests of Envoy start.
		for range 3 {
			rig.WantStatus(s.T, 200, "GET", s.envoy.URL+"/", "X-Tenant: acme")
			s.take("domain=edge&tenant=acme", "0")
		}
	},
	"crawlers.conf": func(s *scene) {
		for _, g := range []*e2e.Gateway{s.envoy, s.nginx} {
			rig.WantStatus(s.T, 403, "GET", g.URL+"/", "User-Agent: GPTBot/1.2")
		}
		for range 60 {
			rig.WantStatus(s.T, 200, "GET", s.envoy.URL+"/", "User-Agent: ExampleBot/1")
		}
		rig.WantStatus(s.T, 429, "GET", s.nginx.URL+"/", "User-Agent: examplebot/1")
		rig.WantStatus(s.T, 200, "GET", s.nginx.URL+"/", "User-Agent: Mozilla/5.0")
	},
	"tokens.conf": func(s *scene) {
		const forged = "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ."
		for _, g := range []*e2e.Gateway{s.envoy, s.nginx} {
			r := rig.WantStatus(s.T, 401, "GET", g.URL+"/", forged)
			if r.Header.Get("WWW-Authenticate") != `Bearer error="invalid_token"` || !strings.Contains(r.Body, "Send a token that is valid") {
				s.Errorf("headers %v, body %q; want the entry's challenge and message", r.Header, r.Body)
			}
			for range 10 { // without a token the network counts
				rig.WantStatus(s.T, 200, "GET", g.URL+"/", "X-User-Id: ann")
			}
		}
		rig.WantStatus(s.T, 429, "GET", s.envoy.URL+"/", "X-User-Id: bob")
	},
	"black-and-white-lists.conf": func(s *scene) {
		for _, g := range []*e2e.Gateway{s.envoy, s.nginx} {
			r := rig.WantStatus(s.T, 403, "GET", g.URL+"/", "X-User-Id: mallory")
			if r.Header.Get("X-Koala-Rule") != "102" {
				s.Errorf("rule %s refused, want the users'", r.Header.Get("X-Koala-Rule"))
			}
			rig.WantStatus(s.T, 403, "GET", g.URL+"/", "X-User-Id: 4711")
		}
		for range 20 {
			rig.WantStatus(s.T, 200, "GET", s.envoy.URL+"/")
		}
		rig.WantStatus(s.T, 429, "GET", s.nginx.URL+"/")
		rig.WantStatus(s.T, 200, "GET", s.nginx.URL+"/", "X-User-Id: monitoring")
		// Koala's API gets addresses other than this machine's as parameters.
		s.take("ip=203.0.113.200", "11")
		s.take("ip=2001:db8:bad::7", "11")
		s.take("ip=203.0.113.200&uid=1001", "0")
		for range 30 {
			s.take("ip=10.1.2.3", "0")
		}
	},
}

// shortWindows are windows that could end between the requests of a test: of a few seconds on a
// busy machine, and of calendar minutes. The test replaces them by an hour from the first request.
var shortWindows = map[string][][2]string{
	"black-and-white-lists.conf": {{"time=10", "time=3600"}},
	"api-plans.conf":             {{"[time=minute; count=table", "[time=3600; count=table"}, {"[time=minute; count=20", "[time=3600; count=20"}},
	"tokens.conf":                {{"[time=60; count=20]", "[time=3600; count=20]"}},
}

func TestExamples(t *testing.T) {
	h := rig.NewFixture(t)
	files, err := filepath.Glob(h.Stage.Path("examples/*.conf"))
	if err != nil || len(files) < len(exampleTests) {
		t.Fatalf("%d example files, %v; want %d, one per test", len(files), err, len(exampleTests))
	}
	for _, file := range files {
		name := filepath.Base(file)
		test, exists := exampleTests[name]
		if !exists {
			t.Errorf("examples/%s has no test; add one for what it promises", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := []string{"check", "--strict", file}
			if name == "partner-queue.conf" {
				check = []string{"check", file} // warns that gateways do not wait by default
			}
			if out, err := exec.Command(rig.Binary, check...).CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", check, err, out)
			}
			h := rig.NewFixture(t)
			if short, found := shortWindows[name]; found {
				file = h.SampleRules("examples/"+name, short...)
				for _, folder := range []string{"lists", "keys"} {
					if err := os.Symlink(h.Stage.Path("examples/"+folder), filepath.Join(h.Dir, folder)); err != nil {
						t.Fatal(err)
					}
				}
			}
			k := h.Koalagate("--rules", file, "--redis", h.Redis().URL())
			app := h.App()
			s := &scene{T: t, koalagate: k, envoy: h.Envoy(app, k), nginx: h.Nginx(app, k)}
			rig.AvoidMidnight(t)
			test(s)
		})
	}
}
