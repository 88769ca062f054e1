package probe_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/koalagate/koalagate/internal/probe"
)

// byCookie and byQuery select the counter of a gateway by a value that clients choose.
func byCookie(name string) func(*http.Request) string {
	return func(r *http.Request) string {
		if c, err := r.Cookie(name); err == nil {
			return c.Value
		}
		return ""
	}
}

func byQuery(name string) func(*http.Request) string {
	return func(r *http.Request) string { return r.URL.Query().Get(name) }
}

// orUnlimited gives each request without a value a counter of its own.
func orUnlimited(key func(*http.Request) string) func(*http.Request) string {
	n := 0
	return func(r *http.Request) string {
		if value := key(r); value != "" {
			return value
		}
		n++
		return strconv.Itoa(n)
	}
}

func TestProbeVariesWhatClientsChoose(t *testing.T) {
	t.Parallel()
	quiet := func(w http.ResponseWriter) { w.Header().Del("RateLimit-Limit") }
	for name, c := range map[string]struct {
		key     func(*http.Request) string
		cookies string
		sources []probe.Source
		want    []string
		not     []string
	}{
		"nothing is trusted": {
			nil, "uid=ann; theme=1",
			[]probe.Source{{Kind: probe.Header, Name: "x-api-key"}},
			[]string{"ok    varying      other values of 4 sources are refused\n"},
			[]string{"note  choosing"},
		},
		"a cookie": {
			byCookie("uid"), "uid=ann; theme=1", nil,
			[]string{"with another value of the cookie uid the request passes", "limit by address, too"},
			[]string{"theme", "without the cookie"},
		},
		"an argument of the query": {
			byQuery("page"), "", nil,
			[]string{"with another value of the query argument page the request passes"},
			nil,
		},
		"a header that only rules name": {
			func(r *http.Request) string { return r.Header.Get("X-Api-Key") }, "",
			[]probe.Source{{Kind: probe.Header, Name: "x-api-key"}, {Kind: probe.Cookie, Name: "sid"}, {Kind: probe.Query, Name: "page"}},
			[]string{"with a value of X-Api-Key the request passes"},
			[]string{"without", "sid", "page the"},
		},
		"a cookie that only rules name": {
			byCookie("sid"), "uid=ann",
			[]probe.Source{{Kind: probe.Cookie, Name: "sid"}},
			[]string{"with a value of the cookie sid the request passes"},
			nil,
		},
		"a limit that omission avoids": {
			orUnlimited(byCookie("uid")), "uid=ann", nil,
			[]string{"without the cookie uid none of 10 requests is refused, and no response reports a quota:"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gateway{limit: 3, key: c.key, pass: quiet, count: make(map[string]int)}
			server := httptest.NewServer(g)
			defer server.Close()
			got := run(t, server.URL+"/api?page=1", func(o *probe.Options) {
				if c.cookies != "" {
					o.Header = http.Header{"Cookie": {c.cookies}}
				}
				o.Sources = c.sources
			})
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in\n%s", want, got)
				}
			}
			for _, not := range c.not {
				if strings.Contains(got, not) {
					t.Errorf("%q is not wanted in\n%s", not, got)
				}
			}
			if !strings.HasSuffix(got, "\nno faults\n") {
				t.Errorf("want no faults in\n%s", got)
			}
		})
	}
}

func TestProbeStopsVaryingWhenTheWindowEnds(t *testing.T) {
	seen := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("page") == "1" && seen == 0 {
			refuse(w)
			return
		}
		seen++
	}))
	defer server.Close()
	if got := run(t, server.URL+"/?page=1", nil); !strings.Contains(got, "note  choosing     the window ended, so the remaining checks are skipped; probe again") {
		t.Error(got)
	}
}

func TestProbeVariesWhatClientsChooseAtExtAuthz(t *testing.T) {
	var paths, cookies []string
	s := &service{}
	s.checked = func(r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		http := r.GetAttributes().GetRequest().GetHttp()
		paths, cookies = append(paths, http.GetPath()), append(cookies, http.GetHeaders()["cookie"])
		if http.GetHeaders()["x-user-id"] == "ann" {
			return &authv3.CheckResponse{
				Status:       &statuspb.Status{Code: int32(codes.PermissionDenied)},
				HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{}},
			}, nil
		}
		return &authv3.CheckResponse{Status: &statuspb.Status{}, HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{}}}, nil
	}
	got := run(t, serve(t, s, healthv1.HealthCheckResponse_SERVING), func(o *probe.Options) {
		o.Header = http.Header{"X-User-Id": {"ann"}, "Cookie": {"a=1; b=2"}}
		o.Path = "/api?page=1"
	})
	for _, want := range []string{
		"note  choosing     with another X-User-Id the request passes",
		"note  choosing     without X-User-Id none of 10 requests is refused",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("want %q once in\n%s", want, got)
		}
	}
	for want, list := range map[string][]string{"/api": paths, "/api?page=koalagate-probe": paths, "b=2; a=koalagate-probe": cookies, "a=1": cookies} {
		if !slices.Contains(list, want) {
			t.Errorf("no check with %q, only %q", want, list)
		}
	}
}
