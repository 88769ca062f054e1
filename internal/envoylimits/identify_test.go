package envoylimits

import (
	"slices"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/mapping"
)

func TestIdentify(t *testing.T) {
	config, err := Read("c", []byte(`domain: d
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: user, value: root, rate_limit: {unit: hour, requests_per_unit: 9}}
- {key: path, value: /a/*, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: path, value: /s/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- key: host
  value: "*.test"
  share_threshold: true
  descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
- key: outer
  value: o
  descriptors:
  - {key: inner, rate_limit: {unit: day, requests_per_unit: 7}}`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := Compile([]*Config{config}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path   string
		values map[string]string
		want   []mapping.Entry
		fault  string
	}{
		{"d.user", map[string]string{"user": "ann"}, []mapping.Entry{{Key: "user", Value: "ann"}}, ""},
		{"d.user", map[string]string{"user": "root"}, nil, "does not count descriptors with these values"},
		{"d.user_root", nil, []mapping.Entry{{Key: "user", Value: "root"}}, ""},
		{"d.path_/a/*", map[string]string{"path": "/a/b"}, []mapping.Entry{{Key: "path", Value: "/a/b"}}, ""},
		{"d.path_/s/*", map[string]string{"path": "/s/b"}, nil, "all values of path that match /s/* together; want path=/s/*"},
		{"d.path_/s/*", map[string]string{"path": "/s/*"}, []mapping.Entry{{Key: "path", Value: "/s/*"}}, ""},
		{"d.path_/s/*", nil, []mapping.Entry{{Key: "path", Value: "/s/*"}}, ""},
		{"d.host_*.test.user", map[string]string{"host": "a.test", "user": "ann"}, nil, "want host=*.test"},
		{"d.host_*.test.user", map[string]string{"user": "ann"}, []mapping.Entry{{Key: "host", Value: "*.test"}, {Key: "user", Value: "ann"}}, ""},
		{"d.outer_o.inner", map[string]string{"inner": "x"}, []mapping.Entry{{Key: "outer", Value: "o"}, {Key: "inner", Value: "x"}}, ""},
		{"d.outer_o.inner", nil, nil, "counts by outer, inner; the value of inner is missing"},
		{"d.outer_o.inner", map[string]string{"inner": "x", "user": "ann"}, nil, "does not count by user"},
		{"d.outer_o", nil, nil, `no limit "d.outer_o"`},
	} {
		domain, got, err := set.Identify(c.path, c.values)
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s %v: %v; want %q", c.path, c.values, err, c.fault)
			}
		case err != nil || domain != "d" || !slices.Equal(got, c.want):
			t.Errorf("%s %v: %s %v, %v; want %v", c.path, c.values, domain, got, err, c.want)
		}
	}
}
