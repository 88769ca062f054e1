package envoy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// The probe detects common configuration errors of Envoy.
func TestProbeOfEnvoy(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	rules := h.File("rules.conf", strings.Replace(rig.DoorRules, "[result]", "rule : [count] [domain=facts; user=+] [time=3600; count=5] [result=2; return=301]\n[result]", 1))
	k := h.Koalagate("--rules", rules)
	app := h.App()
	web := func(headers, more string) string {
		filter := httpAuthz(more)
		if headers == "" {
			return withLongTimeout(strings.Replace(filter, ", allowed_headers: { patterns: [ { exact: x-forwarded-for } ] }", "", 1))
		}
		return withLongTimeout(strings.Replace(filter, "{ exact: x-forwarded-for }", headers, 1))
	}
	const closed = "status_on_error: { code: 403 }"
	const all = "{ exact: x-forwarded-for }, { exact: x-user-id }"
	byUser := `[ { actions: [ { request_headers: { header_name: x-user-id, descriptor_key: user } } ] } ]`
	disabled := `typed_per_filter_config: { envoy.filters.http.ext_authz: { "@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true } }`
	g := rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(app.Address,
		rig.Cluster("koalagate", k.GRPC, rig.HTTP2)+rig.Cluster("service", k.HTTP, "")+strings.ReplaceAll(rig.Cluster("koalagate", unusedAddress(t), rig.HTTP2), "koalagate", "nobody"),
		rig.Listener{Name: "disabled", Filters: []string{extAuthz(rig.Ample, "")}, Route: disabled},
		rig.Listener{Name: "open", Filters: []string{strings.Replace(extAuthz(rig.Ample, "failure_mode_allow: true"), "koalagate", "nobody", 1)}},
		rig.Listener{Name: "closed", Filters: []string{strings.Replace(extAuthz(rig.Ample, ""), "koalagate", "nobody", 1)}},
		rig.Listener{Name: "limit", Filters: []string{rig.RateLimit(rig.Ample, "failure_mode_deny: true")}, RateLimit: byUser},
		rig.Listener{Name: "whole", Filters: []string{rig.RateLimit(rig.Ample, "failure_mode_deny: true, enable_x_ratelimit_headers: DRAFT_VERSION_03, enable_retry_after_header: true")}, RateLimit: byUser},
		rig.Listener{Name: "unlisted", Filters: []string{web("", closed)}},
		rig.Listener{Name: "params", Filters: []string{web(all+", { prefix: x-koala- }", closed)}},
	)))(t)
	at := func(listener, user string) []string {
		return rig.Comments(&e2e.Gateway{URL: "http://" + g.Listeners[listener]}, user)
	}

	t.Run("the sample", func(t *testing.T) {
		rig.Probe(t, 0, []string{"request 6 is refused with 429, by rule 201", "ok    connections  kept across refusals", "forged requests are refused", "no faults"}, rig.Comments(h.Envoy(app, k), "sample")...)
	})
	t.Run("the sample over HTTP", func(t *testing.T) {
		rig.Probe(t, 0, []string{"request 6 is refused with 429, by rule 201", "no faults"}, rig.Comments(h.EnvoyHTTP(app, k), "web")...)
	})
	for _, c := range []struct {
		name, listener string
		code           int
		want           []string
	}{
		{"a filter that is disabled", "disabled", 1, []string{"the gateway is silently open", "Envoy: the filter is missing or `disabled` on this route"}},
		{"koalagate is gone, and the filter fails open", "open", 1, []string{"the gateway is silently open", "`failure_mode_allow`"}},
		{"koalagate is gone, and the filter fails closed", "closed", 1, []string{"the first request is answered with 403 Forbidden, without koalagate's status", "Envoy: ext_authz answers 403 if koalagate exceeds its timeout"}},
		{"a rate limit without headers", "limit", 1, []string{"FAULT headers      the refusal has no Retry-After", "enable_retry_after_header"}},
		{"a rate limit with them", "whole", 0, []string{`the quota is 5, 5;w=3600;name="301", left: 0; Retry-After: `, "no faults"}},
		{"no address", "unlisted", 1, []string{"the first request is answered with 403 Forbidden", "allowed_headers must list x-forwarded-for"}},
		{"a parameter that clients choose", "params", 1, []string{"passes with X-Koala-Param-act: koalagate-probe", "remove x-koala- from allowed_headers"}},
	} {
		t.Run(c.name, func(t *testing.T) { rig.Probe(t, c.code, c.want, at(c.listener, c.listener)...) })
	}
}

// The probe can call an instance directly, like Envoy.
func TestProbeOfKoalagate(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	servers, clients := h.Authority("server-ca"), h.Authority("client-ca")
	cert, key := h.Sign(servers, "koalagate")
	ownCert, ownKey := h.Sign(clients, "prober")
	rules := h.File("rules.conf", rig.DoorRules)
	plain := h.Koalagate("--rules", rules)
	socket := h.Koalagate("--rules", rules, "--grpc-addr", "unix:"+h.Dir+"/grpc.sock")
	secret := h.Koalagate("--rules", rules, "--grpc-tls-cert", cert, "--grpc-tls-key", key)
	mutual := h.Koalagate("--rules", rules, "--grpc-tls-cert", cert, "--grpc-tls-key", key, "--grpc-tls-client-ca", clients.File)
	comment := []string{"--method", "POST", "--path", "/api/comments", "--header", "X-User-Id: ann"}
	own := []string{"--ca", servers.File, "--cert", ownCert, "--key", ownKey}
	refused := []string{"ok    health       the server and both services are SERVING\n", "ok    refusal      check 6 is denied with 429, by rule 201\n", "Retry-After", "no faults\n"}
	for _, c := range []struct {
		name, target string
		code         int
		want, args   []string
	}{
		{"plain text", "grpc://" + plain.GRPC, 0, refused, comment},
		{"by the address that it comes from", "grpc://" + plain.GRPC, 0, []string{"check 6 is denied with 429, by rule 202"}, []string{"--path", "/by-address", "--peer", "203.0.113.9"}},
		{"a limit with more room", "grpc://" + plain.GRPC, 1, []string{"ext_authz refused none of 3 calls"}, append([]string{"--requests", "3", "--header", "X-User-Id: bob"}, comment[:4]...)},
		{"the rate limit service, without a rule", "grpc://" + plain.GRPC, 1, []string{"the rate limit service refused none of 100 calls"}, []string{"--domain", "facts", "--descriptor", "a=b"}},
		{"a unix socket", socket.GRPC, 0, refused, comment},
		{"TLS", "grpcs://" + secret.GRPC, 0, refused, append([]string{"--ca", servers.File}, comment...)},
		{"plain text to TLS", "grpc://" + secret.GRPC, 1, []string{"FAULT reach", "it requires grpcs://"}, comment},
		{"TLS to plain text", "grpcs://" + plain.GRPC, 1, []string{"FAULT reach", "that it uses TLS"}, comment},
		{"an authority that nobody trusts", "grpcs://" + secret.GRPC, 1, []string{"FAULT reach", "--ca must be the authority"}, append([]string{"--ca", clients.File}, comment...)},
		{"another name", "grpcs://" + secret.GRPC, 1, []string{"FAULT reach", "--server-name"}, append([]string{"--ca", servers.File, "--server-name", "other.example"}, comment...)},
		{"mutual TLS", "grpcs://" + mutual.GRPC, 0, refused, append(own, comment...)},
		{"mutual TLS without a certificate", "grpcs://" + mutual.GRPC, 1, []string{"FAULT reach", "with grpc_tls_client_ca it requires --cert"}, append([]string{"--ca", servers.File}, comment...)},
		{"nobody", "grpc://" + unusedAddress(t), 1, []string{"FAULT reach", "check that koalagate runs"}, append([]string{"--timeout", "1s"}, comment...)},
		{"a certificate without its key", "grpcs://" + mutual.GRPC, 2, []string{"--cert and --key require each other"}, []string{"--cert", ownCert}},
		{"TLS options without TLS", "grpc://" + plain.GRPC, 2, []string{"require https:// or grpcs://"}, []string{"--ca", servers.File}},
		{"no URL", "127.0.0.1:9191", 2, []string{"cannot probe"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) { rig.Probe(t, c.code, c.want, append([]string{c.target}, c.args...)...) })
	}
	t.Run("a door that does not enforce", func(t *testing.T) {
		for mode, word := range map[string]string{"observe": "observed-deny", "off": "off"} {
			setModes(t, plain, `{"extauthz":"`+mode+`"}`)
			rig.Probe(t, 1, []string{"the door does not enforce decisions: its verdict is " + word}, append([]string{"grpc://" + plain.GRPC}, comment...)...)
		}
	})
}

// setModes changes modes of a running instance.
func setModes(t *testing.T, k *e2e.Koalagate, modes string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+k.Admin+"/modes", strings.NewReader(modes))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+k.ChangeToken())
	resp, err := rig.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s; want 200", modes, resp.Status)
	}
}
