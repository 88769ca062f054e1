package probe

import (
	"context"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// forgery is one attempt to be taken for another client.
type forgery struct {
	text    string // for the report
	query   string
	headers http.Header
	advice  string
}

// The advice against each kind of forgery.
const (
	addressAdvice = "Let the gateway overwrite the header with the address that it sees, instead of appending to the client's.\n" +
		"Envoy: use_remote_address: true.\n" +
		"If a proxy in front of this gateway sets it, that proxy must overwrite it, and trusted_hops must count the proxy."
	originalAdvice = "Let the gateway overwrite X-Original-* and X-Forwarded-Method, -Uri, -Host and -Proto in every check."
	paramAdvice    = "Let the gateway overwrite the header in every check, with an empty value if it has none.\n" +
		"Envoy over HTTP: remove x-koala- from allowed_headers, or remove the headers before the filter, as the sample does."
	connectionAdvice = "The gateway removes the headers that a client names in Connection, also those that it has set itself.\n" +
		"Caddy: answer 400 to such names, as the lines @odd_connection of the sample do.\n" +
		"Traefik: update it, and leave forwardedHeaders.connection empty."
	queryAdvice = "The gateway appends the client's query to the URL of its checks, where koalagate trusts it.\n" +
		"Caddy: end the `uri` with a question mark; nginx: no $is_args$args after /v1/auth-request."
)

// userHeader is the header in which the samples state the user.
const userHeader = "X-User-Id"

// forgedValue is the value of forged headers and parameters.
const forgedValue = "koalagate-probe"

// forgeries returns all attempts. Each of them selects an unused counter if the
// gateway or koalagate trusts it.
func (p *prober) forgeries() []forgery {
	var list []forgery
	header := func(advice, name, value string) {
		list = append(list, forgery{
			text: name + ": " + value, advice: advice,
			headers: http.Header{textproto.CanonicalMIMEHeaderKey(name): {value}},
		})
	}
	// Addresses of a documentation network, which no list contains.
	for i, name := range []string{"X-Real-IP", "X-Forwarded-For", "Forwarded", "True-Client-IP", "X-Envoy-External-Address"} {
		address := "198.51.100." + strconv.Itoa(200+i)
		if name == "Forwarded" {
			address = "for=" + address
		}
		header(addressAdvice, name, address)
	}
	for _, name := range []string{"X-Original-URI", "X-Original-URL", "X-Forwarded-Uri", "X-Rewrite-URL"} {
		header(originalAdvice, name, "/"+forgedValue)
	}
	for _, name := range []string{"X-Original-Method", "X-Forwarded-Method", "X-HTTP-Method-Override"} {
		header(originalAdvice, name, "PROBE")
	}
	header(originalAdvice, "X-Forwarded-Host", "probe.invalid")
	header(originalAdvice, "X-Forwarded-Proto", "probe")
	var removed []string
	for _, name := range p.Params {
		dashed := strings.NewReplacer("_", "-", ".", "-", ":", "-").Replace(name)
		header(paramAdvice, "X-Koala-Param-"+dashed, forgedValue)
		query := name + "=" + forgedValue
		list = append(list, forgery{text: "the query " + query, query: query, advice: queryAdvice})
		removed = append(removed, "X-Koala-Param-"+dashed)
	}
	if p.Header.Get(userHeader) == "" { // otherwise its removal is the client's own choice
		removed = append(removed, userHeader)
	}
	if len(removed) > 0 {
		header(connectionAdvice, "Connection", strings.Join(removed, ", "))
	}
	return list
}

// forged returns r with the query and the headers of a forgery.
func (r request) forged(f forgery) request {
	if f.query != "" && r.query != "" {
		r.query += "&"
	}
	r.query += f.query
	for name, values := range f.headers {
		r.header[name] = values
	}
	return r
}

// checkForgeries sends forged requests over the limit. One that passes was
// taken for another client's.
func (h *httpProbe) checkForgeries(ctx context.Context, first *response) {
	list := h.forgeries()
	trusted := 0
	for _, f := range list {
		r, err := h.send(ctx, h.request().forged(f))
		if err != nil {
			h.fault("forging", err.Error(), stopped)
			return
		}
		if r.isRefusal() || r.status != first.status && (first.status < 400 || r.status == http.StatusBadRequest) {
			continue
		}
		plain, err := h.send(ctx, h.request())
		if err != nil || !plain.isRefusal() {
			h.note("forging", "the window ended, so the remaining checks are skipped; probe again")
			return
		}
		trusted++
		h.fault("forging", "a request over the limit passes with "+f.text, f.advice)
	}
	if trusted == 0 {
		h.ok("forging", "all %d forged requests are refused", len(list))
	}
	h.checkChoices(ctx, func(ctx context.Context, r request) (outcome, error) {
		answer, err := h.send(ctx, r)
		switch {
		case err != nil || answer.isRefusal() || answer.status >= 400 || first.status < 400 && answer.status != first.status:
			return refused, err
		case answer.quota() != "":
			return passedFor, nil
		}
		return passed, nil
	})
}
