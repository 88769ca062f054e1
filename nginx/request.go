package nginx

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/mapping"
)

// requestOf returns the parts of a check that the mapping needs. The mapping decides
// by the door which of them it trusts.
func requestOf(r *http.Request, name, target string) mapping.Request {
	request := mapping.Request{
		Door:    name,
		Method:  r.Method,
		Path:    target,
		Host:    r.Host,
		Scheme:  "http",
		Peer:    r.RemoteAddr,
		Headers: mapping.HTTPHeaders(r.Header),
	}
	if r.TLS != nil {
		request.Scheme = "https"
	}
	return request
}

// targetOf returns the request target as received, without the scheme and host of the
// absolute form. It does not use the decoded path in r.URL, because an encoded slash
// does not separate segments.
func targetOf(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// wantsNativeStatus reports whether the URL of a check has the argument _deny=native:
// a denial at auth-request then has its own status instead of 403.
func wantsNativeStatus(target string) bool {
	value, _ := argumentOf(target, "_deny")
	return value == "native"
}

// argumentOf returns the first argument of a name in the URL of a check. The argument
// belongs to the door and is not decoded.
func argumentOf(target, name string) (value string, found bool) {
	_, query, _ := strings.Cut(target, "?")
	for query != "" {
		var argument string
		argument, query, _ = strings.Cut(query, "&")
		if key, value, _ := strings.Cut(argument, "="); key == name {
			return value, true
		}
	}
	return "", false
}

// patienceOf returns the longest time that the gateway of a check waits for the answer:
// the argument _wait of the check's URL, in seconds. found is false without the
// argument, or if it is no number of seconds.
func patienceOf(target string) (patience time.Duration, found bool) {
	value, found := argumentOf(target, "_wait")
	if !found {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || !(seconds >= 0) { // also NaN
		return 0, false
	}
	return time.Duration(min(seconds, engine.MaxWait.Seconds()) * float64(time.Second)), true
}

// longAgo is an expired deadline.
var longAgo = time.Unix(1, 0)

// discardBody discards the body of a check without waiting for it, and reports whether
// the connection can carry another check.
//
// net/http waits for the body before it answers. A gateway that forwards
// Content-Length without the body would then hang. If the connection were kept without
// waiting, the next check would be read as the missing body, and a client could choose
// where in it a forged check begins. So discardBody discards only what has arrived
// together with the headers, and otherwise the connection must be closed.
func discardBody(w http.ResponseWriter, r *http.Request) (reusable bool) {
	if r.ContentLength == 0 || r.ProtoMajor > 1 {
		return true
	}
	if r.Header.Get("Expect") != "" {
		return false // reading would make net/http request the body
	}
	if err := http.NewResponseController(w).SetReadDeadline(longAgo); err != nil {
		return false
	}
	_, err := io.Copy(io.Discard, r.Body)
	return err == nil
}
