package rig

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// arrived decodes the application's answer.
func arrived(t *testing.T, r Reply) e2e.Arrived {
	t.Helper()
	var a e2e.Arrived
	if err := json.Unmarshal([]byte(r.Body), &a); err != nil {
		t.Errorf("%v: %.300s is not an answer of the application", err, r.Body)
	}
	return a
}

// WantHeaders checks that each header occurs once with its value, or not at all if
// the value is "".
func WantHeaders(t *testing.T, r Reply, want map[string]string) {
	t.Helper()
	for name, value := range want {
		got := r.Header.Values(name)
		if value == "" && len(got) > 0 || value != "" && (len(got) != 1 || got[0] != value) {
			t.Errorf("%s: %q; want %q", name, got, value)
		}
	}
}

// SendBody sends a POST request with a body.
func SendBody(t *testing.T, url string, body io.Reader, headers ...string) Reply {
	t.Helper()
	request, err := http.NewRequest("POST", url, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Set(name, value)
	}
	resp, err := Client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Reply{resp.StatusCode, resp.Header, string(text)}
}

// Accel starts nginx with nginx/accel.conf in front of app.
func (h *Fixture) Accel(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.Accel(app, instances...))(h.T)
}

// Caddy starts Caddy with its sample in front of app.
func (h *Fixture) Caddy(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.Caddy(app.Address, AddressesOf(instances)))(h.T)
}

// Haproxy starts HAProxy with its sample in front of app.
func (h *Fixture) Haproxy(app *e2e.App, instances ...*e2e.Koalagate) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.HAProxy(app.Address, AddressesOf(instances)))(h.T)
}

// Traefik starts Traefik with its sample, changed by pairs, in front of app.
func (h *Fixture) Traefik(app *e2e.App, k *e2e.Koalagate, pairs ...[2]string) *e2e.Gateway {
	h.Helper()
	return Must(h.Stage.Traefik(app.Address, k.HTTP, pairs...))(h.T)
}

// AddressesOf returns the HTTP addresses of instances.
func AddressesOf(instances []*e2e.Koalagate) []string {
	addresses := make([]string, len(instances))
	for i, k := range instances {
		addresses[i] = k.HTTP
	}
	return addresses
}
