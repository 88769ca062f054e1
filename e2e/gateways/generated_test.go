package gateways_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// otherRules are rules with what the samples lack: tokens in a header, names of headers that YAML
// takes for something else, long ones, and parameters of the gateway with dots and colons.
const otherRules = `
[tokens]
main : keys.json; issuer=https://id.example.com/; audience=api; from=header X-Token, cookie session, query token
[params]
uid      : jwt main sub
team     : header X-Team
status   : gateway
a.b:c    : gateway else header X-Plan
[forward]
x-user-id   : uid
true        : team
2026-01-01  : status
X-LONG : a.b:c
[rules]
rule : [direct] [jwt.main=invalid,expired] [] [result=2; return=1]
rule : [count] [uid=+; team=+; status=+; a.b:c=+] [time=60; count=5] [result=2; return=2]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// bareRules have neither parameters nor forwarded headers.
const bareRules = `
[rules]
rule : [count] [ip=+] [time=60; count=5] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// The programs accept the configurations that `koalagate gateway` makes for other rules and
// addresses than the samples have, as they are.
func TestMadeConfigurationsAreAccepted(t *testing.T) {
	h := rig.NewFixture(t)
	h.File("keys.json", rig.NewIssuer(t, "1").Keys())
	files := map[string]string{
		"other": h.File("other.conf", strings.Replace(otherRules, "X-LONG", "X-"+strings.Repeat("Long-", 20)+"Name", 1)),
		"bare":  h.File("bare.conf", bareRules), "tokens": h.Stage.Path("examples/tokens.conf"), "api-keys": h.Stage.Path("examples/api-keys.conf"),
	}
	free := func() string { t.Helper(); return rig.Must(e2e.FreeAddress())(t) }
	places := map[string][]string{
		"the sample's": nil,
		"others":       {"--listen", free(), "--app", "localhost:" + rig.Port(free()), "--koalagate", "127.0.0.1:9981,[::1]:9981"},
		"swapped":      {"--listen", "127.0.0.1:9981", "--app", "127.0.0.1:8080", "--koalagate", "127.0.0.1:8000"},
	}
	for _, kind := range []string{"nginx", "accel", "caddy", "haproxy", "envoy", "envoy-http"} {
		for name, file := range files {
			for where, flags := range places {
				t.Run(kind+" for "+name+" at "+where, func(t *testing.T) {
					dir := t.TempDir()
					made(t, kind, file, dir, flags...)
					if err := h.Stage.Accepts(kind, dir); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	app := h.App()
	for name, file := range files {
		t.Run("traefik for "+name, func(t *testing.T) {
			dir := t.TempDir()
			k := h.Koalagate("--rules", file)
			made(t, "traefik", file, dir, "--app", app.Address, "--koalagate", k.HTTP)
			g := rig.Must(h.Stage.TraefikWith(string(rig.Must(os.ReadFile(filepath.Join(dir, "traefik.yaml")))(t))))(t)
			if strings.Contains(g.Log(), "ERR") {
				t.Errorf("Traefik reports errors: %s", g.Log())
			}
		})
	}
}

// made writes the files of a gateway into a folder.
func made(t *testing.T, kind, rules, dir string, flags ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), rig.Binary, append([]string{"gateway", kind, "--rules", rules, "--out", dir}, flags...)...)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
