package gateways

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/rules"
)

// facts are what a configuration needs to know about a rule set.
type facts struct {
	forwards []string // the headers of [forward], in their order
	dropped  []string // the headers of clients that get their values from the gateway or koalagate
	params   []param  // the parameters that [params] declares `gateway`
	headers  []string // the headers that [params] and [tokens] read, in lower case
	// hasDownloads reports that a rule is for downloads, which the path does not show: the
	// gateway sets the parameter act, as for examples/gateway.conf.
	hasDownloads bool
}

// param is a parameter that the gateway sets.
type param struct {
	header   string // X-Koala-Param-NAME
	variable string // which holds the value in the gateway
}

// userHeader is the header by which the samples pass on the user that a gateway has
// authenticated. They never trust the client's.
const userHeader = "X-User-Id"

// factsOf returns the facts about a rule set.
func (g *gateway) factsOf(set *rules.Set) *facts {
	f := &facts{dropped: []string{userHeader}}
	for _, x := range set.Forwards {
		f.forwards = append(f.forwards, x.Header)
		if !strings.EqualFold(x.Header, userHeader) {
			f.dropped = append(f.dropped, x.Header)
		}
	}
	for _, d := range set.Params {
		if d.GatewayHeader != "" {
			name := strings.ReplaceAll(strings.TrimPrefix(d.GatewayHeader, "x-koala-param-"), "-", "_")
			f.params = append(f.params, param{http.CanonicalHeaderKey(d.GatewayHeader), g.variableOf(name)})
			f.hasDownloads = f.hasDownloads || d.Name == "act" && hasDownloads(set)
		}
		for _, s := range d.Sources {
			if s.Kind == rules.FromHeader {
				f.read(s.Name)
			}
		}
	}
	for _, t := range set.Tokens {
		for _, place := range t.Places {
			if place.Kind == rules.InHeader && t.IsUsed() {
				f.read(place.Name)
			}
		}
	}
	return f
}

// read adds a header that rules read.
func (f *facts) read(header string) {
	if !slices.Contains(f.headers, header) {
		f.headers = append(f.headers, header)
	}
}

// variableOf returns the variable for a parameter: koala_NAME, unless the sample uses that
// for something else.
func (g *gateway) variableOf(name string) string {
	isTaken := strings.HasPrefix(name, "forward_") || strings.HasPrefix(name, "param_")
	word := regexp.MustCompile(`\bkoala_` + regexp.QuoteMeta(name) + `\b`)
	inside := false
	for line := range strings.Lines(g.file.Text) {
		inside = inside && !isEnd(line)
		isTaken = isTaken || !inside && word.MatchString(line)
		if _, begins := beginOf(line); begins {
			inside = true
		}
	}
	if isTaken {
		return "koala_param_" + name
	}
	return "koala_" + name
}

// hasDownloads reports whether a rule has the condition act=download.
func hasDownloads(set *rules.Set) bool {
	download := rules.MakeParams(map[string]string{"act": "download"})
	return slices.ContainsFunc(set.Rules, func(r *rules.Rule) bool {
		return slices.ContainsFunc(r.Conditions, func(c *rules.Condition) bool {
			return c.Name == "act" && c.Selects() && c.Holds(download, 0)
		})
	})
}

// forwardsUser reports whether koalagate says who the user is.
func (f *facts) forwardsUser() bool {
	return slices.ContainsFunc(f.forwards, func(name string) bool { return strings.EqualFold(name, userHeader) })
}

// underscored returns a header's name as a part of the name of a variable.
func underscored(header string) string { return strings.ReplaceAll(strings.ToLower(header), "-", "_") }
