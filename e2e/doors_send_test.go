package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// arrived decodes the application's answer.
func arrived(t *testing.T, r reply) e2e.Arrived {
	t.Helper()
	var a e2e.Arrived
	if err := json.Unmarshal([]byte(r.body), &a); err != nil {
		t.Errorf("%v: %.300s is not an answer of the application", err, r.body)
	}
	return a
}

// wantHeaders checks that each header occurs once with its value, or not at all if
// the value is "".
func wantHeaders(t *testing.T, r reply, want map[string]string) {
	t.Helper()
	for name, value := range want {
		got := r.header.Values(name)
		if value == "" && len(got) > 0 || value != "" && (len(got) != 1 || got[0] != value) {
			t.Errorf("%s: %q; want %q", name, got, value)
		}
	}
}

// sendBody sends a POST request with a body.
func sendBody(t *testing.T, url string, body io.Reader, headers ...string) reply {
	t.Helper()
	request, err := http.NewRequest("POST", url, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	resp, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func (h *fixture) accel(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return must(h.stage.Accel(app, instances...))(h.T)
}

func (h *fixture) caddy(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return must(h.stage.Caddy(app.Address, addressesOf(instances)))(h.T)
}

func (h *fixture) haproxy(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return must(h.stage.HAProxy(app.Address, addressesOf(instances)))(h.T)
}

func addressesOf(instances []*e2e.Koalagate) []string {
	addresses := make([]string, len(instances))
	for i, k := range instances {
		addresses[i] = k.HTTP
	}
	return addresses
}
