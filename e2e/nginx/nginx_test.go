package nginx_test

import (
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// largeUploads removes nginx's limit on uploads.
var largeUploads = [2]string{"uninitialized_variable_warn off;", "uninitialized_variable_warn off;\n    client_max_body_size 0;"}

func TestNginxAuthRequest(t *testing.T) {
	d := &rig.Door{
		First: 101,
		Open:  rig.NginxWith("nginx/nginx.conf", largeUploads),
		Shut:  rig.NginxWith("nginx/nginx.conf", rig.NginxFailsClosed),
		Down:  []int{500},
	}
	d.Run(t)
}

// A refusal has only koalagate's content type, whatever type nginx has for the path.
func TestNginxRefusalHasOneContentType(t *testing.T) {
	h := rig.NewFixture(t)
	g := h.Nginx(h.App(), h.Koalagate("--rules", h.File("rules.conf", rig.DoorRules)))
	for _, path := range []string{"/", "/page.html", "/logo.gif", "/data.json"} {
		r := rig.WantStatus(t, 403, "GET", g.URL+path, "X-User-Id: blocked")
		rig.WantHeaders(t, r, map[string]string{"Content-Type": "application/problem+json", "X-Koala-Rule": "101"})
	}
}

func TestNginxAccel(t *testing.T) {
	d := &rig.Door{
		First: 121,
		Open:  rig.NginxWith("nginx/accel.conf"),
		Shut:  rig.NginxWith("nginx/accel.conf", [2]string{"    error_page 502 504 = @app;\n", ""}),
		Down:  []int{502, 504},
	}
	d.Run(t)
}
