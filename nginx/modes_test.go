package nginx_test

import (
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/nginx"
)

// TestModes checks status and X-Koala-Decision of every door in each mode, for checks
// that a rule refuses and for checks that cannot be decided.
func TestModes(t *testing.T) {
	checks := []struct {
		name, target string
		headers      []string
		enforced     int
	}{
		{"auth-request of a black list", "/v1/auth-request", viaNginx("GET", "/black"), 403},
		{"auth-request challenges", "/v1/auth-request", viaNginx("GET", "/captcha"), 401},
		{"auth-request of a malformed path", "/v1/auth-request", viaNginx("GET", "/%zz"), 403},
		{"auth-request without a header", "/v1/auth-request", viaNginx("GET", "/")[2:], 403},
		{"forward-auth of a black list", "/v1/forward-auth", viaCaddy("GET", "/black"), 403},
		{"forward-auth of a malformed path", "/v1/forward-auth", viaCaddy("GET", "/%zz"), 400},
		{"accel of a black list", "/v1/accel", viaNginx("GET", "/black"), 403},
		{"ext-authz of a black list", "/v1/ext-authz/black", []string{"X-Forwarded-For", "198.51.100.7"}, 403},
		{"ext-authz without a header", "/v1/ext-authz/black", nil, 403},
	}
	for mode, word := range map[engine.Mode]string{engine.ModeEnforce: "", engine.ModeObserve: "observed-", engine.ModeOff: "off"} {
		o := options(t)
		modes := new(engine.Modes)
		modes.Set(map[string]engine.Mode{"auth-request": mode, "forward-auth": mode, "accel": mode, "ext-authz": mode})
		o.Engine = engine.New(parse(t, ruleFile), wiring.CountIn(inMemory(t)), engine.WithModes(modes))
		s := serve(t, nginx.New(o))
		for _, c := range checks {
			res := check(t, s, "GET", c.target, c.headers...)
			status, decision := c.enforced, res.Header.Get("X-Koala-Decision")
			if mode != engine.ModeEnforce {
				status = 200
				if decision[:min(len(word), len(decision))] != word {
					t.Errorf("%s, %s: X-Koala-Decision %q; want %s…", mode, c.name, decision, word)
				}
			}
			if res.StatusCode != status {
				t.Errorf("%s, %s: %s; want %d", mode, c.name, text(t, res), status)
			}
		}
		// No mode can allow a request whose target is not configured.
		if res := check(t, s, "GET", "/v1/accel", append(viaNginx("GET", "/"), "X-Koala-Accel", "@secret")...); res.StatusCode != 403 {
			t.Errorf("%s, accel to a target that is not in the list: %s", mode, text(t, res))
		}
	}
}

func inMemory(t *testing.T) *memory.Store {
	t.Helper()
	m := memory.New(memory.Options{})
	t.Cleanup(m.Close)
	return m
}
