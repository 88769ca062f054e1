package mapping

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

const benchParams = `
uid    : header X-User-Id else cookie uid else client-ip
tenant : header X-Tenant
q      : query page
act    : gateway
`

const benchRoutes = `
POST /api/comments          : act=add_comment
GET  /api/videos/{video_id} : act=view_video
*    /api/                  : act=api
`

func BenchmarkParams(b *testing.B) {
	set := with(b, benchParams, benchRoutes)
	for _, c := range []struct {
		name string
		call *Request
	}{
		{"extauthz", &Request{
			Door: doorname.ExtAuthz, Method: "GET", Path: "/api/videos/42?page=3&sort=new", Host: "shop.example",
			Scheme: "https", Peer: "203.0.113.9",
			Headers: mapHeaders{
				":authority": "shop.example", ":method": "GET", ":path": "/api/videos/42?page=3&sort=new",
				":scheme": "https", "accept": "*/*", "user-agent": "Mozilla/5.0", "x-request-id": "5135930604681415019",
				"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https", "x-tenant": "acme",
				"cookie": "theme=dark; session=0123456789abcdef; uid=ann; consent=yes",
			},
			Context: map[string]string{"plan": "gold"},
		}},
		{"auth-request", &Request{
			Door: doorname.AuthRequest, Method: "GET", Path: "/v1/auth-request", Host: "koala", Peer: "127.0.0.1:5000",
			Headers: HTTPHeaders(http.Header{
				"X-Original-Method": {"GET"}, "X-Original-Uri": {"/api/videos/42?page=3&sort=new"},
				"X-Real-Ip": {"203.0.113.9"}, "X-Forwarded-Host": {"shop.example"}, "X-Forwarded-Proto": {"https"},
				"X-Koala-Param-Act": {"view"}, "X-Tenant": {"acme"}, "User-Agent": {"Mozilla/5.0"},
				"Cookie": {"theme=dark; session=0123456789abcdef; uid=ann; consent=yes"},
			}),
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var p rules.Params
			o := &Options{}
			b.ReportAllocs()
			for b.Loop() {
				if err := Params(set, c.call, o, &p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkManyParams measures rule files with many lines in [params] and requests with
// all of these parameters.
func BenchmarkManyParams(b *testing.B) {
	for _, n := range []int{8, 64, 256} {
		var declared strings.Builder
		headers := mapHeaders{":authority": "shop.example", ":method": "GET", ":path": "/", ":scheme": "https"}
		for i := range n {
			fmt.Fprintf(&declared, "parameter%d : header X-Parameter-%d\n", i, i)
			headers[fmt.Sprintf("x-parameter-%d", i)] = "value"
		}
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			set := with(b, declared.String(), "")
			call := &Request{Door: doorname.ExtAuthz, Method: "GET", Path: "/", Host: "shop.example", Scheme: "https", Peer: "203.0.113.9", Headers: headers}
			var p rules.Params
			o := &Options{}
			b.ReportAllocs()
			for b.Loop() {
				if err := Params(set, call, o, &p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/parameter")
		})
	}
}

// BenchmarkHostileCookies measures the worst case of a header of the maximum length that
// Envoy accepts.
func BenchmarkHostileCookies(b *testing.B) {
	header := strings.Repeat(",", 60<<10)
	for b.Loop() {
		SplitCookies(header)
	}
}
