package adminapi

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http/httptest"
	"strings"
	"testing"
)

// The author of a change is the name in a certificate that was verified, whatever the caller
// states.
func TestAuthor(t *testing.T) {
	certified := func(name string, verified bool) *tls.ConnectionState {
		one := &x509.Certificate{Subject: pkix.Name{CommonName: name}}
		state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{one}}
		if verified {
			state.VerifiedChains = [][]*x509.Certificate{{one}}
		}
		return state
	}
	for name, c := range map[string]struct {
		tls    *tls.ConnectionState
		stated string
		want   string
	}{
		"stated without TLS":             {nil, "ann@desk", "ann@desk"},
		"not stated":                     {nil, "", "unknown"},
		"too long":                       {nil, strings.Repeat("a", maxAuthor+1), "unknown"},
		"no UTF-8":                       {nil, "\xff", "unknown"},
		"stated with TLS":                {new(tls.ConnectionState), "ann@desk", "ann@desk"},
		"a certificate":                  {certified("bob", true), "", "bob"},
		"a certificate and a false name": {certified("bob", true), "ann@desk", "bob"},
		"a certificate without a name":   {certified("", true), "ann@desk", "ann@desk"},
		"a certificate, not verified":    {certified("bob", false), "ann@desk", "ann@desk"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", Prefix+"reset", nil)
		r.TLS = c.tls
		if c.stated != "" {
			r.Header.Set(AuthorHeader, c.stated)
		}
		if got := authorOf(r); got != c.want {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}
