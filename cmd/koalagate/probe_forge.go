package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// forgery is one attempt of a client to be taken for another one.
type forgery struct {
	what    string // for the report
	query   string
	headers http.Header
	mend    string
}

// What to do against each kind of forgery.
const (
	mendAddress = "Have the gateway overwrite the header with the address that it sees; do not append to what clients send.\n" +
		"Envoy: use_remote_address: true.\n" +
		"If a proxy before this gateway sets it, that proxy has to, and trusted_hops has to count it."
	mendOriginal = "Have the gateway overwrite X-Original-* and X-Forwarded-Method, -Uri, -Host and -Proto of every check."
	mendParam    = "Have the gateway overwrite the header in every check, with an empty value where it has none to say.\n" +
		"Envoy over HTTP: keep x-koala- out of allowed_headers, or remove it before the filter, as the sample does."
	mendQuery = "The gateway appends the client's query to the URL of its checks, where koalagate believes it.\n" +
		"Caddy: end the `uri` with a question mark; nginx: no $is_args$args behind /v1/auth-request."
)

// forgeries are the attempts: each would reach a fresh counter if it were
// believed.
func (p *probe) forgeries() []forgery {
	list := []forgery{}
	header := func(mend, name, value string) {
		list = append(list, forgery{
			what: name + ": " + value, mend: mend,
			headers: http.Header{textproto.CanonicalMIMEHeaderKey(name): {value}},
		})
	}
	// Addresses of a network that is nobody's, so that no list knows them.
	for i, name := range []string{"X-Real-IP", "X-Forwarded-For", "Forwarded", "True-Client-IP", "X-Envoy-External-Address"} {
		address := "198.51.100." + strconv.Itoa(200+i)
		if name == "Forwarded" {
			address = "for=" + address
		}
		header(mendAddress, name, address)
	}
	for _, name := range []string{"X-Original-URI", "X-Original-URL", "X-Forwarded-Uri", "X-Rewrite-URL"} {
		header(mendOriginal, name, "/koalagate-probe")
	}
	for _, name := range []string{"X-Original-Method", "X-Forwarded-Method", "X-HTTP-Method-Override"} {
		header(mendOriginal, name, "PROBE")
	}
	header(mendOriginal, "X-Forwarded-Host", "probe.invalid")
	header(mendOriginal, "X-Forwarded-Proto", "probe")
	for _, name := range p.params {
		dashed := strings.NewReplacer("_", "-", ".", "-", ":", "-").Replace(name)
		header(mendParam, "X-Koala-Param-"+dashed, "koalagate-probe")
		query := name + "=koalagate-probe"
		list = append(list, forgery{what: "the query " + query, query: query, mend: mendQuery})
	}
	return list
}

// forging sends requests that are over their limit under other names. Any that
// passes was believed.
func (w *walk) forging(ctx context.Context, first *sight) {
	list := w.forgeries()
	believed := 0
	for _, f := range list {
		s, err := w.send(ctx, f.query, f.headers)
		if err != nil {
			w.report.fault("forging", err.Error(), "The gateway stopped answering while it was probed.")
			return
		}
		if s.isRefusal() || s.status != first.status && first.status < 400 {
			continue
		}
		plain, err := w.send(ctx, "", nil)
		if err != nil || !plain.isRefusal() {
			w.report.note("forging", "the window has closed meanwhile, so that nothing more can be shown; probe again")
			return
		}
		believed++
		w.report.fault("forging", "a request that is over its limit passes with "+f.what, f.mend)
	}
	if believed == 0 {
		w.report.ok("forging", "%d forged requests are refused like their own", len(list))
	}
	w.choosing(ctx, first)
}

// choosing sends other values of the headers that the probe was told to send.
// Whether a client may choose them is not for us to know: a key or a session
// proves itself, and a user's name does not.
func (w *walk) choosing(ctx context.Context, first *sight) {
	for _, name := range slices.Sorted(maps.Keys(w.header)) {
		if name == "Host" {
			continue
		}
		s, err := w.send(ctx, "", http.Header{name: {"koalagate-probe"}})
		if err != nil || s.isRefusal() || s.status >= 400 || first.status < 400 && s.status != first.status {
			continue
		}
		w.report.note("choosing", "with another "+name+" the request passes: whoever may choose the header has a limit for each value;\n"+
			"unless it proves who asks, have the gateway overwrite it")
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return strconv.Itoa(status)
}
