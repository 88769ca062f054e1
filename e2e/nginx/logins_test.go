package nginx_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// reporting makes a pair of instances read the reports of nginx.
var reporting = rig.Way{Name: "reporting", Settings: [2][]string{{"KOALAGATE_REPORT_ADDR=127.0.0.1:0"}, {"KOALAGATE_REPORT_ADDR=127.0.0.1:0"}}}

// login answers 200 to the password "right", and 401 to any other.
func login(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Password") != "right" {
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// Failed logins are counted by the status of the response, through the samples of the
// gateways: five failures, and the next attempt is refused and opens a ban of an hour.
func TestFailedLoginsAreBanned(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*rig.Fixture, *e2e.App, ...*e2e.Koalagate) *e2e.Gateway{
		"envoy": (*rig.Fixture).Envoy, "nginx": (*rig.Fixture).Nginx, "accel": (*rig.Fixture).Accel,
		"nginx, post_action": nginxPostAction, "accel, post_action": accelPostAction,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rig.NewFixture(t)
			app := rig.StartBackend(t, login)
			instances := h.PairWith(reporting, h.Stage.Path("examples/failed-logins.conf"))
			g := start(h, &e2e.App{Address: app.Address}, instances...)
			banAfterFiveFailures(t, g, app, instances)
			holdGuesses(t, g, app, instances)
		})
	}
}

// nginxPostAction is nginx with the sample of auth_request, which settles by post_action.
func nginxPostAction(h *rig.Fixture, app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return postAction(h, "nginx/nginx.conf", "      proxy_pass http://app/;\n", app, instances)
}

// accelPostAction is nginx with the sample of accel, which settles by post_action.
func accelPostAction(h *rig.Fixture, app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return postAction(h, "nginx/accel.conf", "      proxy_pass http://app;\n", app, instances)
}

// postAction makes a sample settle by post_action, as docs/gateways/nginx.md describes, in
// place of the access log. The line forwards to the application.
func postAction(h *rig.Fixture, sample, line string, app *e2e.App, instances []*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	page := string(rig.Must(os.ReadFile(h.Stage.Path("docs/gateways/nginx.md")))(h.T))
	_, settle, found := strings.Cut(page, "```\nlocation @settle {")
	settle, _, ended := strings.Cut(settle, "```")
	if !found || !ended {
		h.Fatal("docs/gateways/nginx.md has no location @settle")
	}
	return rig.Must(h.Stage.NginxSample(sample, app.Address, []string{instances[0].HTTP, instances[1].HTTP},
		[2]string{"  access_log syslog:server=127.0.0.1:9983,nohostname,tag=koala koala_report if=$koala_receipt;\n", ""},
		[2]string{line, "      post_action @settle;\n" + line},
		[2]string{"    # Not checked.\n", "    location @settle {" + settle + "    # Not checked.\n"}))(h.T)
}

func banAfterFiveFailures(t *testing.T, g *e2e.Gateway, app *rig.Backend, instances []*e2e.Koalagate) {
	t.Helper()
	attempt := func(i, want int, password string) rig.Reply {
		t.Helper()
		rig.Spent(t, instances[i%2], "rule_no=201&act=login&account=ann", 0) // the attempt before has ended
		return rig.WantStatus(t, want, "POST", g.URL+"/login?next=/", "X-Account: ann", "X-Password: "+password)
	}
	for i := range 4 {
		attempt(i, http.StatusUnauthorized, "wrong")
		attempt(i, http.StatusOK, "right")
	}
	attempt(0, http.StatusUnauthorized, "wrong")
	rig.Spent(t, instances[1], "rule_no=202&act=login&account=ann", 5)
	before := app.Requests()
	for range 2 { // the refusal that opens the ban, and another
		r := attempt(1, http.StatusTooManyRequests, "right")
		if retry, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || retry <= 600 || retry > 3600 || r.Header.Get("X-Koala-Rule") != "202" {
			t.Errorf("headers %v; want a ban of an hour by rule 202", r.Header)
		}
	}
	if app.Requests() != before {
		t.Error("a banned attempt reached the application")
	}
}

// holdGuesses sends many guesses of a password at once: two reach the application.
func holdGuesses(t *testing.T, g *e2e.Gateway, app *rig.Backend, instances []*e2e.Koalagate) {
	t.Helper()
	const guesses = 20
	before := app.Requests()
	release := app.Hold()
	defer release()
	var refused atomic.Int64
	rig.Concurrently(guesses, func(int) {
		r, err := rig.TrySend("POST", g.URL+"/login", "X-Account: bob", "X-Password: wrong")
		switch {
		case err == nil && r.Status == http.StatusUnauthorized && refused.Load() == guesses-2:
		case err == nil && r.Status == http.StatusTooManyRequests:
			if refused.Add(1) == guesses-2 {
				release()
			}
		default:
			t.Errorf("status %d, %v; want 429, and 401 for two", r.Status, err)
		}
	})
	if got := app.Requests() - before; got != 2 {
		t.Errorf("%d of %d guesses reached the application; want 2", got, guesses)
	}
	rig.Spent(t, instances[0], "rule_no=202&act=login&account=bob", 2)
}

// Two downloads at a time pass nginx, and one that its client leaves makes place for
// another. The application gets the receipts of koalagate only, and clients get none.
func TestLongDownloadsThroughNginx(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*rig.Fixture, *e2e.App, ...*e2e.Koalagate) *e2e.Gateway{
		"nginx": (*rig.Fixture).Nginx, "accel": (*rig.Fixture).Accel,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rig.NewFixture(t)
			m := rig.StartBackend(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Koala-Receipt", "of-the-application")
				if receipt := cgiReceipt(r); receipt != "" {
					fmt.Fprintf(w, "a receipt: %s", receipt)
				}
			})
			instances := h.PairWith(reporting, h.Stage.Path("examples/long-downloads.conf"))
			g := start(h, &e2e.App{Address: m.Address}, instances...)
			const held = "rule_no=201&act=download&ip=127.0.0.1"
			rig.Probe(t, 0, []string{"the gateway reports the ends of requests"}, g.URL+"/downloads/file", "--after", "--timeout", "20s")
			rig.Overlap(t, m, 20, 2, func(int) (rig.Reply, error) { return rig.TrySend("GET", g.URL+"/downloads/file") })
			rig.Spent(t, instances[0], held, 0)

			release := m.Hold()
			defer release()
			ctx, leave := context.WithCancel(t.Context())
			var left sync.WaitGroup
			before := m.Requests()
			for range 2 {
				left.Go(func() {
					req := rig.Must(http.NewRequestWithContext(ctx, http.MethodGet, g.URL+"/downloads/file", http.NoBody))(t)
					if resp, err := rig.Client.Do(req); err == nil {
						resp.Body.Close()
						t.Errorf("status %d before the application has answered", resp.StatusCode)
					}
				})
			}
			rig.WaitUntil(t, "two downloads are under way", func() bool { return m.Requests() == before+2 })
			rig.WantStatus(t, http.StatusTooManyRequests, "GET", g.URL+"/downloads/file")
			leave()
			left.Wait()
			rig.Spent(t, instances[1], held, 0)
			release()

			for path, has := range map[string]bool{"/downloads/file": true, "/other": false, "/healthz": false} {
				r := rig.WantStatus(t, http.StatusOK, "GET", g.URL+path, "X-Koala-Receipt: forged", "X_Koala_Receipt: forged")
				if got := strings.Contains(r.Body, "a receipt"); got != has || strings.Contains(r.Body, "forged") {
					t.Errorf("%s: %q; want a receipt of koalagate: %v", path, r.Body, has)
				}
				if got := r.Header.Values("X-Koala-Receipt"); len(got) != 0 {
					t.Errorf("%s: the client gets the receipts %q", path, got)
				}
			}
		})
	}
}

// cgiReceipt returns all headers that an application behind CGI takes for the receipt.
func cgiReceipt(r *http.Request) string {
	var all []string
	for name, values := range r.Header {
		if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "X-Koala-Receipt") {
			all = append(all, values...)
		}
	}
	return strings.Join(all, ",")
}
