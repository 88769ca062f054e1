package e2e_test

import (
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// largeUploads removes nginx's limit on uploads.
var largeUploads = [2]string{"uninitialized_variable_warn off;", "uninitialized_variable_warn off;\n    client_max_body_size 0;"}

// nginxFailsClosed removes the line of the sample that lets requests through if
// koalagate is down.
var nginxFailsClosed = [2]string{"      error_page 502 503 504 = @koala_open;\n", ""}

func nginxWith(name string, pairs ...[2]string) func(*fixture, *e2e.App, ...string) *e2e.Gateway {
	return func(h *fixture, app *e2e.App, koalagate ...string) *e2e.Gateway {
		h.Helper()
		return must(h.stage.NginxSample(name, app.Address, koalagate, pairs...))(h.T)
	}
}

func TestNginxAuthRequest(t *testing.T) {
	d := &door{
		first: 101,
		open:  nginxWith("nginx/nginx.conf", largeUploads),
		shut:  nginxWith("nginx/nginx.conf", nginxFailsClosed),
		down:  []int{500},
	}
	d.run(t)
}

// A refusal has only koalagate's content type, whatever type nginx has for the path.
func TestNginxRefusalHasOneContentType(t *testing.T) {
	h := newFixture(t)
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
	d.run(t)
}
