package hostile_test

import (
	"net/http"
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// A client that can influence the weight of its request gains nothing by weights that are
// too large to count: Envoy's rate limit filter lets a request pass if its call fails, so
// they are over the limit, and count nothing.
func TestHostileWeightsDoNotPassEnvoy(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", `
[params]
tokens : descriptor tokens
[rules]
rule : [count] [domain=facts; user=+; tokens!=+]  [time=3600; count=9000000000000000] [result=2; return=301]
rule : [count] [domain=facts; user=+; tokens=+] [time=3600; count=9000000000000000; cost=tokens] [result=2; return=302]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	app := h.App()
	header := func(name, key string) string {
		return `{ request_headers: { header_name: ` + name + `, descriptor_key: ` + key + `, skip_if_absent: true } }`
	}
	envoy := rig.Must(h.Stage.EnvoyWith(rig.EnvoyConfig(app.Address, rig.Cluster("koalagate", k.GRPC, rig.HTTP2), rig.Listener{
		Name: "http", Filters: []string{rig.RateLimit(rig.Ample, `enable_x_ratelimit_headers: DRAFT_VERSION_03`)},
		Route: rig.PerRoute(`{ actions: [ ` + header("x-user", "user") + `, ` + header("x-hits", "koala.hits") + `, ` + header("x-tokens", "tokens") + ` ] }`),
	})))(t)
	for name, c := range map[string]struct {
		headers []string
		want    int
	}{
		"one more than the maximum":   {[]string{"X-Hits: 1000000000000001"}, http.StatusTooManyRequests},
		"the largest of 63 bits":      {[]string{"X-Hits: 9223372036854775807"}, http.StatusTooManyRequests},
		"beyond 64 bits":              {[]string{"X-Hits: 18446744073709551617"}, http.StatusTooManyRequests},
		"an exponent":                 {[]string{"X-Hits: 2e+15"}, http.StatusTooManyRequests},
		"a large exponent":            {[]string{"X-Hits: 1e300"}, http.StatusTooManyRequests},
		"beyond floating point":       {[]string{"X-Hits: 1e999"}, http.StatusTooManyRequests},
		"a product":                   {[]string{"X-Hits: 100000000", "X-Tokens: 100000000"}, http.StatusTooManyRequests},
		"a product beyond 64 bits":    {[]string{"X-Hits: 1000000000000000", "X-Tokens: 1000000000000000"}, http.StatusTooManyRequests},
		"the maximum":                 {[]string{"X-Hits: 1000000000000000"}, http.StatusOK},
		"the maximum, as an exponent": {[]string{"X-Hits: 1e15"}, http.StatusOK},
		"a cost of the maximum":       {[]string{"X-Tokens: 1000000000000000"}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			user := "X-User: " + name
			before := app.Reached()
			r := rig.Send(t, "GET", envoy.URL+"/a", append(c.headers, user)...)
			if r.Status != c.want {
				t.Errorf("%q: %d; want %d", c.headers, r.Status, c.want)
			}
			if passed := app.Reached() > before; passed != (c.want == http.StatusOK) {
				t.Errorf("%q: it reached the application: %v", c.headers, passed)
			}
			if c.want == http.StatusOK {
				return
			}
			plain := []string{user}
			if len(c.headers) > 1 {
				plain = append(plain, "X-Tokens: 1") // the same rule
			}
			left := rig.WantStatus(t, http.StatusOK, "GET", envoy.URL+"/a", plain...)
			rig.WantHeader(t, left.Header, "X-Ratelimit-Remaining", "4294967295") // the field has 32 bits
		})
	}
}
