package gateways

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// each returns the lines that format makes of each element.
func each[T any](list []T, format func(T) string) []string {
	lines := make([]string, len(list))
	for i, element := range list {
		lines[i] = format(element)
	}
	return lines
}

// ifDownloads returns a block that stands in configurations for rules about downloads.
func ifDownloads(lines ...string) func(*facts) []string {
	return func(f *facts) []string {
		if !f.hasDownloads {
			return nil
		}
		return lines
	}
}

var nginxBlocks = map[string]func(*facts) []string{
	"parameters": func(f *facts) []string {
		return append(f.nginxHashes(), each(f.params, func(p param) string { return fmt.Sprintf(`map "" $%s { default ""; }`, p.variable) })...)
	},
	"check": (*facts).nginxCheck,
	"answer": func(f *facts) []string {
		return each(f.forwards, func(header string) string {
			return fmt.Sprintf("auth_request_set $koala_forward_%s $upstream_http_%[1]s;", underscored(header))
		})
	},
	"application": (*facts).nginxApplication,
	"location":    ifDownloads("location /downloads/ {", "  set $koala_act download;", "  proxy_pass http://app/downloads/;", "}"),
}

var accelBlocks = map[string]func(*facts) []string{
	"parameters": (*facts).nginxHashes,
	"check": func(f *facts) []string {
		return append(each(f.params, func(p param) string { return fmt.Sprintf(`set $%s "";`, p.variable) }), f.nginxCheck()...)
	},
	"answer": func(f *facts) []string {
		return each(f.forwards, func(header string) string {
			return fmt.Sprintf("set $koala_forward_%s $upstream_http_%[1]s;", underscored(header))
		})
	},
	"application": (*facts).nginxApplication,
	"unchecked": func(f *facts) []string {
		return append(each(f.dropped, nginxDrop), each(f.params, func(p param) string { return nginxDrop(p.header) })...)
	},
	"location": ifDownloads("location /downloads/ {", "  set $koala_act download;", "  proxy_pass http://$koalagate/v1/accel;", "}"),
}

func nginxDrop(header string) string { return fmt.Sprintf(`proxy_set_header %s "";`, header) }

// nginxCheck returns the headers of a check. The sample sets X-User-Id in any case.
func (f *facts) nginxCheck() []string {
	lines := each(f.params, func(p param) string { return fmt.Sprintf("proxy_set_header %s $%s;", p.header, p.variable) })
	return append(lines, each(f.dropped[1:], nginxDrop)...)
}

// nginxApplication returns the headers of a request for the application.
func (f *facts) nginxApplication() (lines []string) {
	if !f.forwardsUser() {
		lines = append(lines, "proxy_set_header "+userHeader+" $koala_user;")
	}
	for _, header := range f.forwards {
		lines = append(lines, fmt.Sprintf("proxy_set_header %s $koala_forward_%s;", header, underscored(header)))
	}
	return append(lines, each(f.params, func(p param) string { return nginxDrop(p.header) })...)
}

// nginxHashes returns the sizes of nginx's tables of names, if its default of 64 bytes is too
// small for a name.
func (f *facts) nginxHashes() []string {
	longest := 0
	for _, header := range f.forwards {
		longest = max(longest, len("koala_forward_")+len(header))
	}
	for _, p := range f.params {
		longest = max(longest, len(p.header), len(p.variable))
	}
	if longest <= 46 {
		return nil
	}
	size := 1 << bits.Len(uint(longest+32))
	return []string{fmt.Sprintf("variables_hash_bucket_size %d;", size), fmt.Sprintf("proxy_headers_hash_bucket_size %d;", size)}
}

var caddyBlocks = map[string]func(*facts) []string{
	"check": func(f *facts) []string {
		return each(f.params, func(p param) string { return fmt.Sprintf("header_up %s {vars.%s}", p.header, p.variable) })
	},
	"answer": func(f *facts) []string {
		if len(f.forwards) == 0 {
			return nil
		}
		return []string{"copy_headers " + strings.Join(f.forwards, " ")}
	},
	"forged": func(f *facts) []string {
		return each(f.dropped, func(header string) string { return "request_header -" + header })
	},
	"site": ifDownloads("@downloads path /downloads/*", "vars @downloads koala_act download"),
	"application": func(f *facts) (lines []string) {
		for _, header := range f.forwards {
			matcher := "@without_" + underscored(header)
			lines = append(lines,
				fmt.Sprintf("%s header_regexp %s `^$|^\\{http\\.reverse_proxy\\.header\\.`", matcher, header),
				fmt.Sprintf("request_header %s -%s", matcher, header))
		}
		return lines
	},
}

var haproxyBlocks = map[string]func(*facts) []string{
	"forged": func(f *facts) []string {
		lines := each(f.dropped, func(header string) string { return "http-request del-header " + header })
		if len(f.forwards) > 0 {
			lines = append(lines, fmt.Sprintf("http-request set-var(txn.koala_forwarded) str(%q)", strings.Join(f.forwards, " ")))
		}
		return lines
	},
	"parameters": ifDownloads("http-request set-header X-Koala-Param-Act download if { path_beg /downloads/ }"),
}

var traefikBlocks = map[string]func(*facts) []string{
	"answer": func(f *facts) []string {
		return each(f.forwards, func(header string) string { return "- " + plainYAML(header) })
	},
	"forged": func(f *facts) []string {
		lines := each(f.dropped, func(header string) string { return plainYAML(header) + `: ""` })
		return append(lines, each(f.params, func(p param) string { return p.header + `: ""` })...)
	},
	"headers": ifDownloads("downloads:", "  headers:", "    customRequestHeaders:", "      X-Koala-Param-Act: download"),
	"router": ifDownloads("downloads:", "  rule: \"PathPrefix(`/downloads/`)\"",
		"  middlewares: [client, downloads, koalagate]", "  service: app"),
}

var envoyBlocks = map[string]func(*facts) []string{
	"forged": (*facts).envoyForged,
	"route": ifDownloads("- match: { prefix: /downloads/ }", "  route: { cluster: app }", "  typed_per_filter_config:",
		"    envoy.filters.http.ext_authz:",
		`      "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute`,
		"      check_settings: { context_extensions: { act: download } }"),
}

var envoyHTTPBlocks = map[string]func(*facts) []string{
	"forged": (*facts).envoyForged,
	"check": func(f *facts) []string {
		own := slices.DeleteFunc(slices.Clone(f.headers), func(header string) bool {
			// Envoy sends the host itself, and the sample lists the others.
			return slices.Contains([]string{"host", "cookie", "x-forwarded-for", "x-forwarded-proto"}, header)
		})
		return each(own, envoyPattern)
	},
	"application": func(f *facts) []string { return each(f.forwards, envoyPattern) },
}

func (f *facts) envoyForged() []string {
	return each(f.dropped, func(header string) string { return fmt.Sprintf("- { remove: %s }", plainYAML(strings.ToLower(header))) })
}

func envoyPattern(header string) string {
	return fmt.Sprintf("- { exact: %s, ignore_case: true }", plainYAML(strings.ToLower(header)))
}

// isPlainYAML matches names that are text in YAML, without quotes: no number, date or truth
// value, and nothing with a meaning of its own.
var isPlainYAML = regexp.MustCompile(`^[A-Za-z]+-[A-Za-z0-9-]*[A-Za-z0-9]$`)

// plainYAML returns a name as text of YAML.
func plainYAML(name string) string {
	if isPlainYAML.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}
