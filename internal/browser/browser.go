// Package browser keeps web pages in the browsers of operators away from addresses that
// trust their network, such as one on loopback. A page of any origin can send requests
// there, and a page that resolves its own host name to such an address (DNS rebinding)
// can also read the answers.
package browser

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// AllowsHost reports whether a Host header has a host that no web page can take over: an
// IP address, localhost, no host at all, or one of names. A page cannot choose the Host
// header, which has the name by which its browser found the address.
func AllowsHost(host string, names []string) bool {
	name := hostname(host)
	if name == "" || name == "localhost" {
		return true
	}
	for _, n := range names {
		if strings.EqualFold(hostname(n), name) {
			return true
		}
	}
	return isAddress(name)
}

// Refusal is the answer to a request that a web page may have sent.
type Refusal struct {
	Status int    // of HTTP
	Kind   string // web_page or host, as metrics name it
	Reason string // for the caller
}

// Refuse returns the refusal of a request that a page of another origin sent, or that has
// neither a host of AllowsHost with names nor a private name; nil for any other request.
// setting is the setting with the names.
func Refuse(r *http.Request, names []string, setting string) *Refusal {
	switch {
	case IsForeign(r):
		return &Refusal{http.StatusForbidden, "web_page", "a web page of another origin sent the call; browsers may not use this API"}
	case !AllowsHost(r.Host, names) && !IsPrivateName(r.Host):
		return &Refusal{http.StatusMisdirectedRequest, "host", "the host name is not listed in " + setting + "; add it to that setting, or use the IP address"}
	}
	return nil
}

// SentPost reports whether a POST has a header by which browsers name the page that sends it:
// Origin, which they add to every POST, or another one. No page can leave it out.
func SentPost(r *http.Request) bool {
	for _, name := range [...]string{"Origin", "Sec-Fetch-Site", "Accept-Language"} {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// MaySendGet reports whether a browser may have sent a GET, to which it need not add Origin:
// all browsers accept deflate, and no page can change that. Few programs do.
func MaySendGet(r *http.Request) bool {
	return SentPost(r) || strings.Contains(strings.Join(r.Header["Accept-Encoding"], ","), "deflate")
}

// isAddress reports whether name is an IP address. It calls netip.ParseAddr, whose errors
// allocate, only for texts that may be one.
func isAddress(name string) bool {
	if strings.IndexByte(name, ':') < 0 && (name[0] < '0' || name[0] > '9') {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// IsPrivateName reports whether a Host header has a name that the public DNS cannot
// contain, so that no web page has it: one label, as in a network of containers, or a
// name of a service in Kubernetes that ends in .svc or .svc.cluster.local.
func IsPrivateName(host string) bool {
	name := hostname(host)
	return name != "" && strings.IndexByte(name, '.') < 0 ||
		strings.HasSuffix(name, ".svc") || strings.HasSuffix(name, ".svc.cluster.local")
}

// hostname returns a host in lower case without port, brackets and a final dot.
// net.SplitHostPort would allocate for a host without a port.
func hostname(host string) string {
	name := host
	if inside, found := strings.CutPrefix(host, "["); found {
		if address, port, closed := strings.Cut(inside, "]"); closed && (port == "" || port[0] == ':') {
			name = address
		}
	} else if before, port, found := strings.Cut(host, ":"); found && strings.IndexByte(port, ':') < 0 {
		name = before
	}
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

// IsForeign reports whether a page of another origin sent the request, with any method:
// a GET for an image or a link, too. Requests without the headers of browsers, as programs
// send them, are not foreign.
func IsForeign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "":
	case "none", "same-origin": // an address that the user typed, or a page of this address
	default:
		return true
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return true
		}
	}
	return false
}
