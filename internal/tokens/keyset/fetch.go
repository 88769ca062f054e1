package keyset

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

const (
	// maxRedirects is the number of redirects that a fetch follows.
	maxRedirects = 3
	// discoveryPath is the path of the discovery document below an issuer (OpenID Connect
	// Discovery 1.0, section 4).
	discoveryPath = "/.well-known/openid-configuration"
)

// newClient returns a client that verifies servers, and follows redirects to https alone, and to
// hosts that may be asked.
func newClient(roots *x509.CertPool, mayAsk func(*url.URL) error) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: fetchTime}).DialContext,
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case len(via) > maxRedirects:
				return fmt.Errorf("more than %d redirects", maxRedirects)
			case r.URL.Scheme != "https":
				return errRedirect
			}
			return mayAsk(r.URL)
		},
	}
}

var errRedirect = errors.New("a redirect leads to an address without https")

// get returns the text at an address and its ETag; no text if that with the former tag has not
// changed.
func (k *Keeper) get(ctx context.Context, address, tag string) (text []byte, newTag string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, "", err
	}
	if err := k.o.MayAsk(r.URL); err != nil {
		return nil, "", err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "koalagate")
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	answer, err := k.client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotModified && tag != "":
		return nil, tag, nil
	case answer.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("%s answers %d; want 200", r.URL.Redacted(), answer.StatusCode)
	}
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind == "text/html" {
		return nil, "", fmt.Errorf("%s answers with a page of HTML; want JSON", r.URL.Redacted())
	}
	text, err = io.ReadAll(io.LimitReader(answer.Body, tokens.MaxKeysText+1))
	if err == nil {
		err = ctx.Err() // a server that notices the deadline may seem to end its answer
	}
	switch {
	case err != nil:
		return nil, "", err
	case len(text) > tokens.MaxKeysText:
		return nil, "", fmt.Errorf("%s answers with more than %d bytes", r.URL.Redacted(), tokens.MaxKeysText)
	}
	return text, answer.Header.Get("ETag"), nil
}

// discover returns the address of the keys of an issuer.
func (k *Keeper) discover(ctx context.Context, issuer string) (string, error) {
	text, _, err := k.get(ctx, strings.TrimSuffix(issuer, "/")+discoveryPath, "")
	if err != nil {
		return "", err
	}
	var document struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return "", fmt.Errorf("the discovery document is invalid: %w", err)
	}
	if document.Issuer != issuer {
		return "", fmt.Errorf("the discovery document is that of another issuer, %.200q", document.Issuer)
	}
	address, err := url.Parse(document.Keys)
	if err != nil || !rules.ProtectsKeys(address) || address.Scheme != "https" && strings.HasPrefix(issuer, "https:") {
		return "", fmt.Errorf("the discovery document has the jwks_uri %.200q; want https://", document.Keys)
	}
	return document.Keys, nil
}
