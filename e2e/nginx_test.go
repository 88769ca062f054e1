package e2e_test

import (
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// roomy lets clients upload what the application would take.
var roomy = [2]string{"uninitialized_variable_warn off;", "uninitialized_variable_warn off;\n    client_max_body_size 0;"}

// nginxFailsOpen is the line of the sample that lets through what cannot be asked
// about, and its absence.
var nginxFailsOpen = [2]string{"      error_page 500 502 503 504 = @koala_open;\n", ""}

func nginxWith(name string, pairs ...[2]string) func(*house, *e2e.App, ...string) *e2e.Gateway {
	return func(h *house, app *e2e.App, koalagate ...string) *e2e.Gateway {
		h.Helper()
		return must(h.stage.NginxSample(name, app.Address, koalagate, pairs...))(h.T)
	}
}

func TestNginxAuthRequest(t *testing.T) {
	d := &door{
		first: 101,
		open:  nginxWith("nginx/nginx.conf", roomy),
		shut:  nginxWith("nginx/nginx.conf", nginxFailsOpen),
		down:  []int{500},
	}
	d.tell(t)
}

// A refusal has koalagate's type alone, whatever type nginx knows of the path.
func TestNginxRefusesWhateverThePathEndsIn(t *testing.T) {
	h := newHouse(t)
	g := h.nginx(h.app(), h.koalagate("--rules", h.file("rules.conf", doorRules)))
	for _, path := range []string{"/", "/page.html", "/logo.gif", "/data.json"} {
		r := wantStatus(t, 403, "GET", g.URL+path, "X-User-Id: blocked")
		wantHeaders(t, r, map[string]string{"Content-Type": "application/problem+json", "X-Koala-Rule": "101"})
	}
}

func TestNginxAccel(t *testing.T) {
	d := &door{
		first: 121,
		open:  nginxWith("nginx/accel.conf"),
		shut:  nginxWith("nginx/accel.conf", [2]string{"    error_page 502 504 = @app;\n", ""}),
		down:  []int{502, 504},
	}
	d.tell(t)
}
