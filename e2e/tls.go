package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"
)

// secured says where the lines of a gateway's page for TLS belong in its samples.
var secured = map[string]struct {
	page  string
	plain *regexp.Regexp // the listener of the sample; its group is the address
}{
	"envoy":   {"docs/gateways/envoy.md", regexp.MustCompile(`(?m)^    - filters:()\n`)},
	"nginx":   {"docs/gateways/nginx.md", regexp.MustCompile(`(?m)^    listen (127\.0\.0\.1:8080);\n`)},
	"caddy":   {"docs/gateways/caddy.md", regexp.MustCompile(`(?m)^http://(:\d+) \{\n`)},
	"haproxy": {"docs/gateways/haproxy.md", regexp.MustCompile(`(?m)^    bind (127\.0\.0\.1:\d+)\n`)},
	"traefik": {"docs/gateways/traefik.md", regexp.MustCompile(`(?m)^http:()\n`)},
}

// OfferTLS makes gateways started from now on accept TLS instead of plain text, with HTTP/2
// and HTTP/1.1, as their pages in docs/gateways say. The files of certificate and key are
// in PEM, and ca is the file of their authority.
func (s *Stage) OfferTLS(cert, key, ca string) error {
	roots, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "shop.example"}
	if !config.RootCAs.AppendCertsFromPEM(roots) {
		return fmt.Errorf("%s contains no certificate", ca)
	}
	var both []byte // as HAProxy reads it
	for _, name := range []string{cert, key} {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		both = append(both, text...)
	}
	s.tls = &listenerTLS{client: config, files: strings.NewReplacer("shop.crt", cert, "shop.key", key, "shop.pem", s.fileName("shop.pem"))}
	return os.WriteFile(s.fileName("shop.pem"), both, 0o600)
}

// listenerTLS is how gateways accept TLS.
type listenerTLS struct {
	client *tls.Config
	files  *strings.Replacer // of the pages by the stage's
}

// withTLS returns the sample of a name with the lines of its gateway's page.
func (s *Stage) withTLS(name, text string) (string, error) {
	gateway, _, _ := strings.Cut(strings.TrimPrefix(name, "deploy/"), "/")
	where, found := secured[gateway]
	if !found {
		return "", fmt.Errorf("%s: no page says how to add TLS", name)
	}
	lines, err := s.linesForTLS(where.page)
	if err != nil {
		return "", err
	}
	at := where.plain.FindStringSubmatchIndex(text)
	if at == nil {
		return "", fmt.Errorf("%s: no listener %v", name, where.plain)
	}
	address := text[at[2]:at[3]]
	lines = addressOfPages.ReplaceAllString(s.tls.files.Replace(lines), address)
	return text[:at[0]] + lines + text[at[1]:], nil
}

// What the pages have instead of the stage's own: the folder of certificates, and the address.
var (
	folderOfPages  = regexp.MustCompile(`/etc/[a-z]+/(shop\.)`)
	addressOfPages = regexp.MustCompile(`\S*\b443\b`)
)

// linesForTLS returns the lines on a gateway's page that replace the plain listener of its
// samples: the first block of the section about TLS of clients.
func (s *Stage) linesForTLS(page string) (string, error) {
	text, err := os.ReadFile(s.Path(page))
	if err != nil {
		return "", err
	}
	_, section, found := strings.Cut(string(text), "\n## TLS of clients\n")
	_, block, opened := strings.Cut(section, "\n```")
	_, block, begins := strings.Cut(block, "\n")
	block, _, ends := strings.Cut(block, "```\n")
	if !found || !opened || !begins || !ends {
		return "", fmt.Errorf("%s: no block in a section `TLS of clients`", page)
	}
	return folderOfPages.ReplaceAllString(block, "$1"), nil
}

// gateway returns a gateway that listens at an address, with TLS if the stage offers it,
// and authenticates the stage's users.
func (s *Stage) gateway(p *Program, address string) *Gateway {
	g := &Gateway{Program: p, Address: address, URL: "http://" + address}
	if s.tls != nil {
		g.TLS, g.URL = s.tls.client, "https://"+address
	}
	if len(s.users) > 0 {
		g.Authorization = g.As(s.users[0])
	}
	return g
}

// answers requests the page that the samples do not protect.
func (g *Gateway) answers() error {
	_, err := g.health()
	return err
}

// serves is answers for a gateway that answers before it has read its configuration.
func (g *Gateway) serves() error {
	status, err := g.health()
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/healthz: %d", status)
	}
	return err
}

// health returns the status of the page that the samples do not protect.
func (g *Gateway) health() (status int, err error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: g.TLS, DisableKeepAlives: true}}
	request, err := http.NewRequest(http.MethodGet, g.URL+"/healthz", http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Host = "shop.example"
	resp, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
