package extauthz_test

import (
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/wiring"
	"github.com/koalagate/koalagate/rules"
)

// TestResultEntriesCannotBreakTheReply uses entries with fields that no reply can
// carry unchanged.
func TestResultEntriesCannotBreakTheReply(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*rules.Result)
		check  func(*testing.T, *authv3.DeniedHttpResponse)
	}{
		"a line end and a NUL": {
			func(r *rules.Result) { r.Headers = []rules.Header{{Name: "X-A", Value: "b\r\nSet-Cookie: c\x00"}} },
			func(t *testing.T, d *authv3.DeniedHttpResponse) {
				if got := names(d.Headers)["x-a"]; got != "b  Set-Cookie: c " {
					t.Errorf("X-A is %q", got)
				}
			},
		},
		"what is no UTF-8": {
			func(r *rules.Result) {
				r.Headers, r.Body = []rules.Header{{Name: "X-A", Value: "\xff"}}, "\xff"
			},
			func(t *testing.T, d *authv3.DeniedHttpResponse) {
				if d.Body != "\uFFFD" {
					t.Errorf("the body is %q", d.Body)
				}
			},
		},
		"headers of the transport": {
			func(r *rules.Result) {
				r.Headers = []rules.Header{{Name: ":status", Value: "200"}, {Name: "Content-Length", Value: "0"}, {Name: "X\n", Value: "a"}}
			},
			func(t *testing.T, d *authv3.DeniedHttpResponse) {
				for name := range names(d.Headers) {
					if strings.HasPrefix(name, ":") || name == "content-length" || strings.HasPrefix(name, "x\n") {
						t.Errorf("%q is sent", name)
					}
				}
			},
		},
		"a header of ours": {
			func(r *rules.Result) { r.Headers = []rules.Header{{Name: "retry-after", Value: "9"}} },
			func(t *testing.T, d *authv3.DeniedHttpResponse) {
				if got := names(d.Headers)["retry-after"]; got != "9" {
					t.Errorf("Retry-After is %q; want the entry's own", got)
				}
			},
		},
		"a status below 200": {
			func(r *rules.Result) { r.HTTPStatus = 42 },
			func(t *testing.T, d *authv3.DeniedHttpResponse) {
				if d.Status.Code != 403 {
					t.Errorf("the status is %d", d.Status.Code)
				}
			},
		},
		"a status above 599": {
			func(r *rules.Result) { r.HTTPStatus = 600 },
			func(t *testing.T, d *authv3.DeniedHttpResponse) {
				if d.Status.Code != 403 {
					t.Errorf("the status is %d", d.Status.Code)
				}
			},
		},
		"a status without a body": {
			func(r *rules.Result) { r.HTTPStatus, r.Body, r.Headers = 204, "lost", nil },
			func(t *testing.T, d *authv3.DeniedHttpResponse) {
				if d.Body != "" || names(d.Headers)["content-type"] != "" {
					t.Errorf("a 204 has a body or its type: %v", d)
				}
			},
		},
		"a redirect": {
			func(r *rules.Result) {
				r.HTTPStatus, r.Headers = 302, []rules.Header{{Name: "Location", Value: "/login"}}
			},
			func(t *testing.T, d *authv3.DeniedHttpResponse) {
				if d.Status.Code != 302 || names(d.Headers)["location"] != "/login" {
					t.Errorf("the reply is %v", d)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := parse(t, outcomes)
			test.change(set.Results[4])
			door := open(t, outcomes, func(o *extauthz.Options) { o.Engine = engine.New(set, wiring.CountIn(fixedStore())) })
			ask(t, door, about("teapot", nil))
			denied := ask(t, door, about("teapot", nil)).GetDeniedResponse()
			if denied == nil {
				t.Fatal("the second was not denied")
			}
			test.check(t, denied)
		})
	}
}

func TestGRPCClientReceivesTheStatusOfTheEntry(t *testing.T) {
	door := open(t, outcomes, nil)
	for kind, want := range map[string]string{
		"application/grpc": "9", "application/grpc+proto": "9", "application/json": "", "application/grpc-web": "",
	} {
		denied := ask(t, door, about("own", map[string]string{"content-type": kind})).GetDeniedResponse()
		if got := names(denied.GetHeaders())["grpc-status"]; got != want {
			t.Errorf("%s: grpc-status is %q; want %q", kind, got, want)
		}
	}
	// Without Grpc_status in the entry the mapping is Envoy's.
	denied := ask(t, door, about("black", map[string]string{"content-type": "application/grpc"})).GetDeniedResponse()
	if got, there := names(denied.GetHeaders())["grpc-status"]; there {
		t.Errorf("grpc-status is %q; want none", got)
	}
}
