package nginx_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// nginx and curl call koalagate over TLS, with client certificates. The lines for nginx
// are those of docs/gateways/nginx.md.
func TestNginxOverMutualTLS(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	servers, clients := h.Authority("server-ca"), h.Authority("client-ca")
	cert, key := h.Sign(servers, "koalagate")
	ownCert, ownKey := h.Sign(clients, "nginx")
	k := h.Koalagate("--rules", h.File("rules.conf", rig.DoorRules),
		"--http-tls-cert", cert, "--http-tls-key", key, "--http-tls-client-ca", clients.File)
	app := h.App()
	secure := func(lines string) [2]string {
		return [2]string{"proxy_pass http://koalagate/v1/auth-request;", "proxy_pass https://koalagate/v1/auth-request;\n" +
			"proxy_ssl_trusted_certificate " + servers.File + ";\nproxy_ssl_verify on;\nproxy_ssl_name koalagate;\n" + lines}
	}
	known := rig.Must(h.Stage.NginxSample("nginx/nginx.conf", app.Address, []string{k.HTTP}, rig.NginxFailsClosed,
		secure(fmt.Sprintf("proxy_ssl_certificate %s;\nproxy_ssl_certificate_key %s;\n", ownCert, ownKey))))(t)
	rig.WantStatus(t, 403, "GET", known.URL+"/", "X-User-Id: blocked")
	rig.WantStatus(t, 200, "GET", known.URL+"/", "X-User-Id: ann")
	stranger := rig.Must(h.Stage.NginxSample("nginx/nginx.conf", app.Address, []string{k.HTTP}, rig.NginxFailsClosed, secure("")))(t)
	rig.WantStatus(t, 500, "GET", stranger.URL+"/", "X-User-Id: ann")

	curl := rig.Must(h.Stage.Find("curl"))(t)
	url := "https://" + k.HTTP + "/rule/browse?uid=ann"
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"with a certificate", "200", []string{"--cacert", servers.File, "--cert", ownCert, "--key", ownKey, "--http2", url}},
		{"without a certificate", "000", []string{"--cacert", servers.File, url}},
		{"in plain text", "400", []string{"http" + strings.TrimPrefix(url, "https")}},
	} {
		args := append([]string{"-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20"}, c.args...)
		// The exit code is part of what curl writes: 000 without an answer.
		if out, _ := exec.Command(curl, args...).Output(); string(out) != c.want {
			t.Errorf("curl %s: %s, want %s", c.name, out, c.want)
		}
	}
}
