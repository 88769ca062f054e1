package dropin_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/internal/dropin"
	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/peer"
)

// loads counts the attempts of a keeper.
type loads struct{ good, bad int }

// Loaded counts one.
func (l *loads) Loaded(ok bool) {
	if ok {
		l.good++
	} else {
		l.bad++
	}
}

func keeper(l *loads) *dropin.Keeper {
	return dropin.NewKeeper(false, l, slog.New(slog.DiscardHandler))
}

// config returns a configuration with one limit.
func config(domain string) *envoylimits.Config {
	return &envoylimits.Config{Name: "c", Domain: domain, Descriptors: []envoylimits.Descriptor{
		{Key: "k", Policy: &envoylimits.Policy{Unit: "day", Requests: 3}},
	}}
}

func TestFaultyLimitsKeepThePreviousOnes(t *testing.T) {
	var l loads
	k := keeper(&l)
	select {
	case <-k.First():
		t.Error("the first attempt is over before it began")
	default:
	}
	k.Take(nil, errors.New("unreadable"))
	if <-k.First(); k.Current() != nil {
		t.Error("there are limits; want none")
	}
	k.Take([]*envoylimits.Config{config("d")}, nil)
	if err := k.Apply([]*envoylimits.Config{config("d"), config("d")}); err == nil || err.Error() != "c: duplicate domain 'd' in config file" {
		t.Errorf("got %v", err)
	}
	if k.Current().Domains() != 1 || l.good != 1 || l.bad != 2 {
		t.Errorf("%d domains, %+v; want 1, and 1 of 3 attempts", k.Current().Domains(), l)
	}
}

// get returns the status and the body of a page.
func get(h http.Handler, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:4711"
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestPages(t *testing.T) {
	k := keeper(new(loads))
	draining := false
	pages := &dropin.Pages{
		Keeper: k, TrustedProxies: peer.PrivateRanges(), HealthyWithOne: true, Draining: func() bool { return draining },
		Statistics: func(w io.Writer) error { _, err := io.WriteString(w, "name: 1\n"); return err },
		Decide: func(_ context.Context, request []byte) ([]byte, error) {
			in := new(rlsv3.RateLimitRequest)
			if err := proto.Unmarshal(request, in); err != nil || in.GetDomain() == "" {
				return nil, errors.New("no domain")
			}
			code := rlsv3.RateLimitResponse_OK
			if in.GetDomain() == "over" {
				code = rlsv3.RateLimitResponse_OVER_LIMIT
			}
			return proto.Marshal(&rlsv3.RateLimitResponse{OverallCode: code})
		},
	}
	calls, debug := pages.HTTP(http.NotFoundHandler()), pages.Debug(http.NotFoundHandler())
	check := func(h http.Handler, method, path, body string, want int, contains string) {
		t.Helper()
		if code, text := get(h, method, path, body); code != want || !strings.Contains(text, contains) {
			t.Errorf("%s %s %s: %d %q; want %d %q", method, path, body, code, text, want, contains)
		}
	}
	check(calls, "GET", "/healthcheck", "", 500, "")
	check(debug, "GET", "/rlconfig", "", 200, "")
	k.Take([]*envoylimits.Config{config("d")}, nil)
	check(calls, "GET", "/healthcheck", "", 200, "OK")
	check(debug, "GET", "/rlconfig", "", 200, "d.k: unit=DAY requests_per_unit=3, shadow_mode: false, quota_mode: false\n")
	check(debug, "GET", "/stats", "", 200, "name: 1\n")
	check(debug, "GET", "/", "", 200, "/rlconfig")
	check(debug, "GET", "/debug/pprof/heap", "", 404, "")
	check(calls, "POST", "/json", `{"domain":"d","descriptors":[{"entries":[{"key":"k"}]}]}`, 200, "OK")
	check(calls, "POST", "/json", `{"domain":"over","hitsAddend":2}`, 429, "OVER_LIMIT")
	check(calls, "POST", "/json", `{"domain":"over","hits_addend":2}`, 429, "OVER_LIMIT")
	for _, faulty := range []string{"", "{", `{"unknown":1}`, `{}`} {
		check(calls, "POST", "/json", faulty, 400, "Bad Request")
	}
	check(calls, "GET", "/other", "", 404, "")
	draining = true
	check(calls, "GET", "/healthcheck", "", 500, "")
}

// The limits and the statistics share a place, and the page for Prometheus has one of its own.
func TestOnePlaceForLongPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, release := make(chan struct{}, 2), make(chan struct{})
		hold := func() { began <- struct{}{}; <-release }
		pages := &dropin.Pages{Keeper: keeper(new(loads)), Statistics: func(io.Writer) error { hold(); return nil }}
		debug := pages.Debug(http.NotFoundHandler())
		scraped := pages.Operators.Scraped(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hold() }))
		go get(debug, "GET", "/stats", "")
		go get(scraped, "GET", "/metrics", "")
		<-began
		<-began
		for _, path := range []string{"/stats", "/rlconfig"} {
			if code, text := get(debug, "GET", path, ""); code != http.StatusTooManyRequests {
				t.Errorf("%s: %d %q; want 429", path, code, text)
			}
		}
		if code, text := get(scraped, "GET", "/metrics", ""); code != http.StatusTooManyRequests {
			t.Errorf("the page for Prometheus: %d %q; want 429", code, text)
		}
		if code, _ := get(debug, "GET", "/", ""); code != http.StatusOK {
			t.Errorf("/: %d; want 200", code)
		}
		close(release)
		synctest.Wait()
		if code, text := get(debug, "GET", "/rlconfig", ""); code != http.StatusOK {
			t.Errorf("afterwards: %d %q; want 200", code, text)
		}
	})
}

// Limits whose texts would control a terminal, or add lines, have a line each.
func TestPagesShowHostileTexts(t *testing.T) {
	k := keeper(new(loads))
	pages := &dropin.Pages{Keeper: k, TrustedProxies: peer.PrivateRanges()}
	k.Take([]*envoylimits.Config{config("d\x1b[2J\nforged.k: unit=DAY\u202e\u009b")}, nil)
	_, text := get(pages.Debug(http.NotFoundHandler()), "GET", "/rlconfig", "")
	if strings.Count(text, "\n") != 1 || strings.ContainsAny(text, "\x1b\u202e\u009b") || !strings.Contains(text, "forged.k") {
		t.Errorf("%q; want one line that a terminal shows", text)
	}
}
