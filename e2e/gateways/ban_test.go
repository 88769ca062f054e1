package gateways_test

import (
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// banRules count comments by user, and at the rate limit service by address and by the user in
// the sample for language models.
const banRules = `
[params]
uid : header X-User-Id
act : gateway
[routes]
POST /api/comments : act=comment
[rules]
rule : [count] [act=comment; uid=+] [time=3600; count=1M] [result=2; return=201]
rule : [count] [door=ratelimit; remote_address=+] [time=3600; count=1M] [result=2; return=501]
rule : [count] [door=ratelimit; user=+] [time=3600; count=1M] [result=2; return=502]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// An operator bans a client from everything: every gateway then answers each of his requests with
// 429 and Retry-After to the end of the ban, whether a rule knows the request or not, and none
// reaches the application. Others pass, and so does he after the ban.
func TestBanAtEveryGateway(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", banRules))
	app := h.App()
	instances := []*e2e.Koalagate{k}
	gateways := map[string]*e2e.Gateway{
		"envoy": h.Envoy(app, k), "envoy over HTTP": h.EnvoyHTTP(app, k), "envoy with a queue": rig.QueueEnvoy(h, app.Address, app.Address, instances),
		"envoy for models": rig.LlmEnvoy(h, &rig.Backend{Address: app.Address}, k), "nginx": h.Nginx(app, k), "accel": h.Accel(app, k),
		"caddy": h.Caddy(app, k), "haproxy": h.Haproxy(app, k), "traefik": h.Traefik(app, k),
	}
	passes := func(user string) {
		t.Helper()
		for name, g := range gateways {
			for _, line := range []string{"GET /a", "POST /api/comments"} {
				method, path, _ := strings.Cut(line, " ")
				if r := rig.Send(t, method, g.URL+path, "X-User-Id: "+user); r.Status != http.StatusOK {
					t.Errorf("%s, %s by %s: %d, %s; want it passed", name, line, user, r.Status, r.Body)
				}
			}
		}
	}
	passes("bob")
	ids := []string{changeException(t, k, "ban", "uid=bob", "--for", "1h"), changeException(t, k, "ban", "user=bob", "--for", "1h")}
	end := time.Now().Add(time.Hour)
	for name, g := range gateways {
		before := app.Reached()
		for _, line := range []string{"GET /a", "POST /a", "POST /api/comments", "GET //api//comments?a=b"} {
			method, path, _ := strings.Cut(line, " ")
			wantBanned(t, name+", "+line, rig.Send(t, method, g.URL+path, "X-User-Id: bob"), end)
		}
		rig.WantRefused(t, "POST", g.URL+"/api/./comments", "X-User-Id: bob")
		if app.Reached() != before {
			t.Errorf("%s: a request of a banned client reached the application", name)
		}
		rig.WantStatus(t, http.StatusOK, "GET", g.URL+"/healthz", "X-User-Id: bob") // not checked
	}
	passes("ann")
	for _, id := range ids {
		changeException(t, k, "remove", id)
	}
	passes("bob")

	// Only the rate limit service knows this parameter, which Envoy asks besides ext_authz.
	id := changeException(t, k, "ban", "door=ratelimit", "remote_address=127.0.0.1", "--for", "2h")
	end = time.Now().Add(2 * time.Hour)
	for _, name := range []string{"envoy", "envoy for models"} {
		wantBanned(t, name+", by the rate limit service", rig.Send(t, "GET", gateways[name].URL+"/a", "X-User-Id: bob"), end)
	}
	changeException(t, k, "remove", id)
	passes("bob")
}

// wantBanned checks the answer to a request of a client who is banned until an instant.
func wantBanned(t *testing.T, what string, r rig.Reply, end time.Time) {
	t.Helper()
	retry, left := r.Header.Values("Retry-After"), int(time.Until(end).Seconds())
	seconds := 0
	if len(retry) == 1 {
		seconds, _ = strconv.Atoi(retry[0])
	}
	if r.Status != http.StatusTooManyRequests || seconds < left-1 || seconds > left+60 {
		t.Errorf("%s: %d, Retry-After %q; want 429, and about %d once; %s", what, r.Status, retry, left, r.Body)
	}
}

// changeException runs `koalagate exception` against an instance, and returns the ID of the
// exception.
func changeException(t *testing.T, k *e2e.Koalagate, args ...string) (id string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), rig.Binary, append([]string{"exception", "--admin", k.Admin}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v, %s", args, err, out)
	}
	id, _, _ = strings.Cut(strings.TrimPrefix(string(out), "removed "), " ")
	return id
}
