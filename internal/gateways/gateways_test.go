package gateways

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// samples are the files that ship with koalagate, by the gateways that they are for.
var samples = map[string][]string{
	"nginx": {"nginx/nginx.conf"}, "accel": {"nginx/accel.conf"}, "caddy": {"deploy/caddy/Caddyfile"},
	"haproxy": {"deploy/haproxy/haproxy.cfg", "deploy/haproxy/koala.lua"}, "traefik": {"deploy/traefik/traefik.yaml"},
	"envoy": {"envoy/envoy.yaml"}, "envoy-http": {"envoy/envoy-http.yaml"},
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func load(t *testing.T, path string) *rules.Set {
	t.Helper()
	set, findings, err := reload.Files{Paths: []string{path}}.Load()
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	return set
}

// parse returns the rule set of these sections and a rule.
func parse(t *testing.T, sections string) *rules.Set {
	t.Helper()
	text := sections + "\n[rules]\nrule : [count] [uid=+] [time=1; count=1] [result=2; return=1]\n" +
		"[result]\n0 : {\"Err_no\":0}\n1 : {\"Err_no\":0}\n2 : {\"Err_no\":10}\n"
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{Timezone: "UTC"})
	if set == nil {
		t.Fatal(findings)
	}
	return set
}

// The samples that people copy are what the command prints for the rules that they are for.
func TestSamplesAreTheConfigurationsForTheExample(t *testing.T) {
	set := load(t, filepath.Join("..", "..", "examples", "gateway.conf"))
	if len(samples) != len(Names()) {
		t.Errorf("%d gateways have samples; want %d", len(samples), len(Names()))
	}
	for _, name := range Names() {
		files, err := Configure(name, set, Options{})
		if err != nil || len(files) != len(samples[name]) {
			t.Errorf("%s: %v, %d files; want %d", name, err, len(files), len(samples[name]))
			continue
		}
		for i, f := range files {
			if diff := cmp.Diff(read(t, samples[name][i]), f.Text); diff != "" {
				t.Errorf("%s differs from the configuration for examples/gateway.conf (-sample +made):\n%s", samples[name][i], diff)
			}
		}
	}
}

// many are rules with two forwarded headers and two parameters of the gateway, one of
// which has the name of a variable of the samples.
const many = `
[params]
uid    : header X-User-Id
status : gateway
plan   : gateway else header X-Plan else cookie plan
[forward]
x-user-id   : uid
X-User-Plan : plan
`

// Each gateway drops what clients claim in forwarded headers and parameters, and passes on
// koalagate's values.
func TestBlocks(t *testing.T) {
	set := parse(t, many)
	for name, want := range map[string][]string{
		"nginx": {
			`map "" $koala_param_status { default ""; }`, `map "" $koala_plan { default ""; }`,
			"proxy_set_header X-Koala-Param-Status $koala_param_status;", "proxy_set_header X-Koala-Param-Plan $koala_plan;", `proxy_set_header X-User-Plan "";`,
			"auth_request_set $koala_forward_x_user_id $upstream_http_x_user_id;", "auth_request_set $koala_forward_x_user_plan $upstream_http_x_user_plan;",
			"proxy_set_header x-user-id $koala_forward_x_user_id;", "proxy_set_header X-User-Plan $koala_forward_x_user_plan;",
			`proxy_set_header X-Koala-Param-Status "";`, `proxy_set_header X-Koala-Param-Plan "";`,
		},
		"accel": {
			`set $koala_status "";`, `set $koala_plan "";`,
			"proxy_set_header X-Koala-Param-Status $koala_status;", "proxy_set_header X-Koala-Param-Plan $koala_plan;", `proxy_set_header X-User-Plan "";`,
			"set $koala_forward_x_user_id $upstream_http_x_user_id;", "set $koala_forward_x_user_plan $upstream_http_x_user_plan;",
			"proxy_set_header x-user-id $koala_forward_x_user_id;", "proxy_set_header X-User-Plan $koala_forward_x_user_plan;",
			`proxy_set_header X-Koala-Param-Status "";`, `proxy_set_header X-Koala-Param-Plan "";`,
			`proxy_set_header X-User-Id "";`, `proxy_set_header X-User-Plan "";`, `proxy_set_header X-Koala-Param-Status "";`, `proxy_set_header X-Koala-Param-Plan "";`,
		},
		"caddy": {
			"header_up X-Koala-Param-Status {vars.koala_status}", "header_up X-Koala-Param-Plan {vars.koala_plan}",
			"copy_headers x-user-id X-User-Plan", "request_header -X-User-Id", "request_header -X-User-Plan",
			"@without_x_user_id header_regexp x-user-id `^$|^\\{http\\.reverse_proxy\\.header\\.`", "request_header @without_x_user_id -x-user-id",
			"@without_x_user_plan header_regexp X-User-Plan `^$|^\\{http\\.reverse_proxy\\.header\\.`", "request_header @without_x_user_plan -X-User-Plan",
		},
		"haproxy": {
			"http-request del-header X-User-Id", "http-request del-header X-User-Plan", `http-request set-var(txn.koala_forwarded) str("x-user-id X-User-Plan")`,
		},
		"traefik":    {"- x-user-id", "- X-User-Plan", `X-User-Id: ""`, `X-User-Plan: ""`, `X-Koala-Param-Status: ""`, `X-Koala-Param-Plan: ""`},
		"envoy":      {"- { remove: x-user-id }", "- { remove: x-user-plan }"},
		"envoy-http": {"- { remove: x-user-id }", "- { remove: x-user-plan }", "- { exact: x-user-id, ignore_case: true }", "- { exact: x-plan, ignore_case: true }", "- { exact: x-user-id, ignore_case: true }", "- { exact: x-user-plan, ignore_case: true }"},
	} {
		text, err := Blocks(name, set)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Without [forward] and parameters of the gateway, the application gets the user that the
// gateway has authenticated, and the client's is dropped as before.
func TestConfigurationWithoutForward(t *testing.T) {
	set := parse(t, "[params]\nuid : header X-User-Id")
	for name, want := range map[string]string{
		"nginx": "proxy_set_header X-User-Id $koala_user;", "accel": "proxy_set_header X-User-Id $koala_user;", "caddy": "request_header -X-User-Id",
		"haproxy": "http-request del-header X-User-Id", "traefik": `X-User-Id: ""`, "envoy": "- { remove: x-user-id }", "envoy-http": "- { remove: x-user-id }",
	} {
		text, err := Blocks(name, set)
		if err != nil || strings.Count(text, want) == 0 || strings.Contains(text, "koala_forward") || strings.Contains(text, "download") {
			t.Errorf("%s: %v, want %q and nothing forwarded in\n%s", name, err, want, text)
		}
	}
}

// Envoy sends the headers with tokens to the check, once each, as gateways do that send all.
func TestHeadersOfTokens(t *testing.T) {
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(`
[tokens]
main   : https://id.example.com/keys; issuer=i; audience=a; from=bearer, header X-Token, cookie session, query t
other  : https://id.example.com/keys; issuer=j; audience=a; from=header X-Token, header X-Other
unused : https://id.example.com/keys; issuer=k; audience=a; from=header X-Unused
[params]
uid  : jwt main sub
oid  : jwt other sub
team : header X-Team
[rules]
rule : [count] [uid=+; oid=+; team=+] [time=1; count=1] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`)}}, rules.Options{Timezone: "UTC", OpenToken: func(*rules.JWT, []byte) (rules.JWTVerifier, []error, error) { return nil, nil, nil }})
	if set == nil {
		t.Fatal(findings)
	}
	text, err := Blocks("envoy-http", set)
	const want = `# koalagate gateway: begin check
                - { exact: x-team, ignore_case: true }
                - { exact: x-token, ignore_case: true }
                - { exact: x-other, ignore_case: true }
                # koalagate gateway: end`
	if err != nil || !strings.Contains(text, want) {
		t.Errorf("%v; want\n%s\nin\n%s", err, want, text)
	}
}

// The addresses of the options are in the configuration, and the sample's are not.
func TestAddresses(t *testing.T) {
	set := parse(t, many)
	port := regexp.MustCompile(`\b(8080|8000|9981|9191|10000)\b`)
	for _, name := range Names() {
		o := Options{Listen: "[::1]:81", App: "app.example:82", Koalagate: []string{"192.0.2.1:83", "koala.example:84"}}
		if name == "traefik" {
			o.Koalagate = o.Koalagate[:1]
		}
		files, err := Configure(name, set, o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := files[0].Text
		for line := range strings.Lines(text) {
			if port.MatchString(line) {
				t.Errorf("%s keeps an address of the sample: %s", name, line)
			}
		}
		for _, want := range slices.Concat([]string{":81", ":82"}, o.Koalagate) {
			if !strings.Contains(text, want[strings.LastIndexByte(want, ':')+1:]) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
		if strings.HasPrefix(name, "envoy") {
			if n := strings.Count(text, "type: STRICT_DNS\n"); n != 2 {
				t.Errorf("%s resolves %d clusters by name; want 2", name, n)
			}
		}
	}
}

// Addresses of the options that the sample has elsewhere stay where the options put them, so
// that the application never answers checks.
func TestAddressesOfTheSample(t *testing.T) {
	set := parse(t, many)
	for i := range gateways {
		g := &gateways[i]
		distinct := []string{"192.0.2.1:60001", "192.0.2.2:60002", "192.0.2.3:60003"}
		configure := func(a []string) string {
			files, err := Configure(g.name, set, Options{Listen: a[0], App: a[1], Koalagate: a[2:]})
			if err != nil {
				t.Fatalf("%s: %q: %v", g.name, a, err)
			}
			return files[0].Text
		}
		want := configure(distinct)
		sample := []string{g.sample.listen, sampleApp, g.sample.koalagate}
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			var own, pairs []string
			for place, from := range order {
				own = append(own, sample[from])
				host, port, _ := net.SplitHostPort(distinct[place])
				_, newPort, _ := net.SplitHostPort(sample[from])
				pairs = append(pairs, host, "127.0.0.1", port, newPort)
			}
			if diff := cmp.Diff(strings.NewReplacer(pairs...).Replace(want), configure(own)); diff != "" {
				t.Errorf("%s with %q (-want +got):\n%s", g.name, own, diff)
			}
		}
	}
}

// An address that two have is refused: checks would reach the application, or requests the
// gateway again.
func TestAddressesThatTwoHave(t *testing.T) {
	set := parse(t, many)
	for _, c := range []struct {
		gateway string
		o       Options
		want    string
	}{
		{"nginx", Options{App: "127.0.0.1:9981"}, "the application and koalagate both have the address 127.0.0.1:9981; give each its own"},
		{"nginx", Options{Listen: "127.0.0.1:8000"}, "the gateway and the application both"},
		{"caddy", Options{Listen: "127.0.0.1:81", Koalagate: []string{"127.0.0.1:9981", "127.0.0.1:81"}}, "the gateway and koalagate both"},
		{"haproxy", Options{App: "127.0.0.1:9980"}, "the gateway's own listener and the application both"},
		{"envoy", Options{Listen: "127.0.0.1:9901"}, "the gateway's own listener and the gateway both"},
		{"envoy", Options{App: "127.0.0.1:9191"}, "the application and koalagate both"},
	} {
		if _, err := Configure(c.gateway, set, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v; want %q", c.gateway, c.o, err, c.want)
		}
	}
}

func TestInvalidOptions(t *testing.T) {
	set := parse(t, many)
	for _, o := range []Options{
		{Listen: ":8080"},
		{Listen: "8080"},
		{Listen: "shop.example:80"},
		{Listen: "127.0.0.1:0"},
		{Listen: "127.0.0.1:99999"},
		{Listen: "127.0.0.1:80; evil"},
		{App: "app"},
		{App: "a b:80"},
		{App: "app:80;"},
		{App: "$app:80"},
		{App: "{app}:80"},
		{Koalagate: []string{"127.0.0.1:9981", "127.0.0.1:"}},
		{Koalagate: []string{"\n:1"}},
		{Koalagate: []string{""}},
		{Koalagate: []string{"127.0.0.1:9981", ""}},
		{Koalagate: []string{}},
	} {
		for _, name := range Names() {
			if _, err := Configure(name, set, o); err == nil {
				t.Errorf("%s: no error for %q", name, o)
			}
		}
	}
	if _, err := Configure("traefik", set, Options{Koalagate: []string{"a:1", "b:2"}}); err == nil {
		t.Error("Traefik has two addresses")
	}
	if _, err := Configure("apache", set, Options{}); err == nil || !strings.Contains(err.Error(), "want one of nginx, accel") {
		t.Errorf("apache: %v", err)
	}
}

// Names that mean something else to YAML, and long ones, are written so that the gateway reads
// them.
func TestNamesOfHeaders(t *testing.T) {
	var forward strings.Builder
	names := []string{"true", "No", "1e3", "2026-01-01", "x-" + strings.Repeat("long-", 40) + "name"}
	for _, name := range names {
		fmt.Fprintf(&forward, "%s : uid\n", name)
	}
	set := parse(t, "[params]\nuid : header X-User-Id\n[forward]\n"+forward.String())
	for _, name := range []string{"envoy", "envoy-http", "traefik"} {
		files, err := Configure(name, set, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var document any
		if err := yaml.Unmarshal([]byte(files[0].Text), &document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := fmt.Sprintf("%#v", document)
		for _, header := range names {
			if quoted := fmt.Sprintf("%q", header); !strings.Contains(text, quoted) && !strings.Contains(text, strings.ToLower(quoted)) {
				t.Errorf("%s has no text %s", name, quoted)
			}
		}
	}
	for _, name := range []string{"nginx", "accel"} {
		if text, err := Blocks(name, set); err != nil || !strings.Contains(text, "variables_hash_bucket_size 256;") || !strings.Contains(text, "proxy_headers_hash_bucket_size 256;") {
			t.Errorf("%s: %v, no room for a long name in\n%s", name, err, text)
		}
	}
}
