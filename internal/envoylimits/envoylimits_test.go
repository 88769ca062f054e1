package envoylimits_test

import (
	"strings"
	"testing"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
)

// compile compiles one file.
func compile(text string) (*envoylimits.Set, error) {
	config, err := envoylimits.Read("f", []byte(text))
	if err != nil {
		return nil, err
	}
	return envoylimits.Compile([]*envoylimits.Config{config}, false)
}

const begin = "domain: d\ndescriptors:\n- "

func TestFaultyFilesAreRefused(t *testing.T) {
	deep := "domain: d\n" + strings.Repeat("descriptors: [{key: k, ", 1100) + strings.Repeat("}]", 1100)
	for _, c := range []struct{ text, want string }{
		{"", "f: config file cannot have empty domain"},
		{"null", "f: config file cannot have empty domain"},
		{"domain:\ndescriptors:", "f: config file cannot have empty domain"},
		{"domain: [", "f: error loading config file: "},
		{"[]", "want a mapping"},
		{"domain: d\nDomain: e", "config error, unknown key 'Domain'"},
		{"domain: d\n1: e", "config error, key is not of type string: 1"},
		{"domain: d\ndescriptors: [a]", "config error, yaml file contains list of type other than map: a"},
		{"domain: d\ndescriptors: [null]", "list of type other than map"},
		{"domain: d\ndescriptors: {}", "no mapping for descriptors"},
		{"domain: d\ndescriptors: x", "no scalar for descriptors"},
		{"domain: [{key: a}]", "no list for domain"},
		{begin + "value: v", "f: descriptor has empty key"},
		{begin + "key: 1.5", "error checking config"},
		{begin + "key: k\n  unknown: 1", "unknown key 'unknown'"},
		{begin + "key: k\n  rate_limit: {unit: fortnight, requests_per_unit: 1}", "invalid rate limit unit 'fortnight'"},
		{begin + "key: k\n  rate_limit: {}", "invalid rate limit unit ''"},
		{begin + "key: k\n  rate_limit: 5", "no scalar for rate_limit"},
		{begin + "key: k\n  rate_limit: {unit: day, requests_per_unit: -1}", "an integer from 0 to 4294967295"},
		{begin + "key: k\n  rate_limit: {unit: day, requests_per_unit: 4294967296}", "an integer from 0 to 4294967295"},
		{begin + "key: k\n  rate_limit: {unit: day, requests_per_unit: 1.5}", "error checking config"},
		{begin + "key: k\n  rate_limit: {unit: day, requests_per_unit: \"1\"}", "an integer from 0 to 4294967295"},
		{begin + "key: k\n  shadow_mode: \"true\"", "true or false for shadow_mode"},
		{begin + "key: k\n  shadow_mode: 1", "true or false for shadow_mode"},
		{begin + "key: k\n  share_threshold: true\n  value: v", "share_threshold can only be used with wildcard values (containing '*'), but found key 'k_v'"},
		{begin + "key: k\n- key: k", "f: duplicate descriptor composite key 'd.k'"},
		{begin + "key: k\n  value: v\n- key: k_v", "f: duplicate descriptor composite key 'd.k_v'"},
		{begin + "key: k\n  rate_limit: {unlimited: true, unit: day}", "should not specify rate limit unit when unlimited"},
		{begin + "key: k\n  rate_limit: {unit: day, replaces: [{name: \"\"}]}", "should not have an empty replaces entry"},
		{begin + "key: k\n  rate_limit: {unit: day, name: n, replaces: [{name: n}]}", "replaces should not contain name of same descriptor"},
		{begin + "key: k\n  rate_limit: {unit: day, replaces: [n]}", "list of type other than map: n"},
		{begin + "key: k\n  metadata: [1]", "a mapping for metadata"},
		{begin + "key: k\n  metadata: {not UTF-8: !!binary gIGC}", "error parsing metadata"},
		{begin + "key: k\n  value: 9223372036854775808", "error checking config"},
		{"domain: &a\n  key: *a", "error loading config file"},
		{deep, "error loading config file"},
	} {
		if _, err := compile(c.text); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "f: ") {
			t.Errorf("%.80q: got %v; want %s", c.text, err, c.want)
		}
	}
}

func TestDuplicateDomainsAreMergedOnlyOnRequest(t *testing.T) {
	configs := []*envoylimits.Config{{Name: "a", Domain: "d"}, {Name: "b", Domain: "d"}}
	if _, err := envoylimits.Compile(configs, false); err == nil || err.Error() != "b: duplicate domain 'd' in config file" {
		t.Errorf("got %v", err)
	}
	if s, err := envoylimits.Compile(configs, true); err != nil || s.Domains() != 1 {
		t.Errorf("got %v", err)
	}
}

// entries splits k=v,k=v.
func entries(text string) (list []mapping.Entry) {
	for item := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(item, "=")
		list = append(list, mapping.Entry{Key: key, Value: value})
	}
	return list
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "domain: d", begin + "key: k\n  value: a*b\n  share_threshold: true\n  rate_limit: {unit: day, requests_per_unit: 3}",
		"a: &a {b: *a}", "domain: d\ndescriptors: [{key: k, metadata: {a: [1, {b: c}]}}]", "<<: {domain: d}", "domain: d\n---\ndomain: e", begin + "key: '*'\n  rate_limit: &r {unlimited: yes}\n- <<: [{key: x}]\n  rate_limit: *r",
	} {
		f.Add(seed, "k=v,in=x")
	}
	f.Fuzz(func(t *testing.T, text, request string) {
		set, err := compile(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f: ") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		check(t, set, request)
	})
}

func FuzzFromProto(f *testing.F) {
	for _, m := range []*configv3.RateLimitConfig{
		{}, {Name: "n", Domain: "d", Descriptors: []*configv3.RateLimitDescriptor{{Key: "k", Value: "v*", RateLimit: &configv3.RateLimitPolicy{Unit: 7}}}},
	} {
		text, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "k=v")
	}
	f.Fuzz(func(t *testing.T, message []byte, request string) {
		m := new(configv3.RateLimitConfig)
		if proto.Unmarshal(message, m) != nil {
			return
		}
		if set, err := envoylimits.Compile([]*envoylimits.Config{envoylimits.FromProto(m)}, false); err == nil {
			check(t, set, request)
		}
	})
}

// check matches a request in each domain that a limit has.
func check(t *testing.T, set *envoylimits.Set, request string) {
	t.Helper()
	var m envoylimits.Match
	for _, l := range set.Limits() {
		domain, _, _ := strings.Cut(l.Path, ".")
		set.Match(domain, entries(request), &m)
		if m.Limit != nil && m.Path == "" || m.Limit == nil && m.Path != "" {
			t.Errorf("%s: the limit %v has the path %q", request, m.Limit, m.Path)
		}
		if !l.Unlimited && l.Unit.Seconds() == 0 {
			t.Errorf("%v has no window", l)
		}
	}
}
