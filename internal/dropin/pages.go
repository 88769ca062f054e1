package dropin

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/internal/browser"
	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/peer"
	"github.com/koalagate/koalagate/internal/printable"
)

// maxBody is the largest body of a request to /json, in bytes.
const maxBody = 1 << 20

// Pages are the pages of envoyproxy/ratelimit at its HTTP and debug addresses.
type Pages struct {
	Keeper *Keeper
	// Decide answers a RateLimitRequest in wire form; see ratelimit.Limits.
	Decide func(ctx context.Context, request []byte) ([]byte, error)
	// Statistics writes the page /stats.
	Statistics func(io.Writer) error
	// Draining reports whether the service is draining.
	Draining func() bool
	// HealthyWithOne makes the service unhealthy while no domain is loaded.
	HealthyWithOne bool
	// Calls guards /json, and Operators the pages of the debug address.
	Calls, Operators Guard
	// TrustedProxies are the peers that may call /json, which counts for any identity.
	TrustedProxies []netip.Prefix
	// Profiles leaves the pages under /debug/pprof/ to next.
	Profiles bool
}

// HTTP returns the handler of the HTTP address, which leaves unknown paths to next. Load
// balancers call /healthcheck, which has no data, under any host name.
func (p *Pages) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthcheck":
			p.health(w)
		case "/json":
			p.answer(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// health reports whether the service can be called.
func (p *Pages) health(w http.ResponseWriter) {
	if p.Draining() || p.LacksLimits() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "OK") // an error means that the caller has left
}

// LacksLimits reports whether the service is unhealthy because no domain is loaded.
func (p *Pages) LacksLimits() bool {
	set := p.Keeper.Current()
	return p.HealthyWithOne && (set == nil || set.Domains() == 0)
}

// answer answers a call of /json, unless a web page or a peer that is not trusted may have
// sent it.
func (p *Pages) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case p.Calls.bars(w, r):
	case !peer.IsTrusted(r, p.TrustedProxies):
		p.Calls.refuse(w, r, &browser.Refusal{
			Status: http.StatusForbidden, Kind: "untrusted", Reason: "the peer is not listed in KOALAGATE_TRUSTED_PROXIES; add its address to that setting",
		})
	case !mayBeJSON(r):
		p.Calls.refuse(w, r, &browser.Refusal{
			Status: http.StatusUnsupportedMediaType, Kind: "content_type", Reason: "want Content-Type: application/json",
		})
	default:
		p.json(w, r)
	}
}

// json answers a RateLimitRequest in JSON.
func (p *Pages) json(w http.ResponseWriter, r *http.Request) {
	refuse := func() { http.Error(w, "Bad Request", http.StatusBadRequest) }
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse()
		return
	}
	in, out := new(rlsv3.RateLimitRequest), new(rlsv3.RateLimitResponse)
	if err := protojson.Unmarshal(body, in); err != nil {
		refuse()
		return
	}
	request, err := proto.Marshal(in)
	if err != nil {
		refuse()
		return
	}
	reply, err := p.Decide(r.Context(), request)
	if err == nil {
		err = proto.Unmarshal(reply, out)
	}
	if err != nil {
		refuse()
		return
	}
	text, err := protojson.Marshal(out)
	if err != nil {
		refuse()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if out.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text)
}

// index lists the pages of the debug address.
const index = "/debug/pprof/: profiles, if KOALAGATE_RATELIMIT_PROFILES allows them\n" +
	"/rlconfig: the current limits\n" +
	"/stats: the statistics\n" +
	"/ui/: the page for operators of koalagate\n" +
	"/metrics, /readyz, /version, /modes: the pages of koalagate, with admin_token\n"

// Debug returns the handler of the debug address, which leaves other paths to next.
func (p *Pages) Debug(next http.Handler) http.Handler {
	own := map[string]bool{"/": true, "/rlconfig": true, "/stats": true}
	// Both are as long as the limits are many.
	long := pace.NewLine().Pages(pace.PageTime, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/rlconfig" {
			p.limits(r.Context(), w)
			return
		}
		_ = p.Statistics(w) // fails only if the caller has left
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case own[path] && p.Operators.bars(w, r):
		case path == "/rlconfig" || path == "/stats":
			long.ServeHTTP(w, r)
		case path == "/":
			_, _ = io.WriteString(w, index)
		case strings.HasPrefix(path, "/debug/") && !p.Profiles:
			http.NotFound(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// limits writes a line for each limit.
func (p *Pages) limits(ctx context.Context, w io.Writer) {
	set := p.Keeper.Current()
	if set == nil {
		return
	}
	for _, l := range set.Limits() {
		if pace.Step(ctx) != nil {
			return // the caller has left
		}
		if _, err := io.WriteString(w, printable.Text(l.String())+"\n"); err != nil {
			return
		}
	}
}

// At returns a handler that serves h at one path.
func At(path string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}
