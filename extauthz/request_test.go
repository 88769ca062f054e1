package extauthz

import (
	"os"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/koalagate/koalagate/mapping"
)

// captured is a check as Envoy 1.40 sent it, from testdata.
func captured(t testing.TB, name string) *authv3.CheckRequest {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	check := new(authv3.CheckRequest)
	if err := protojson.Unmarshal(text, check); err != nil {
		t.Fatalf("testdata/%s.json: %v", name, err)
	}
	return check
}

func TestACheckIsReadFromItsFields(t *testing.T) {
	for name, test := range map[string]struct {
		want    mapping.Request
		headers map[string]string // "-" for one that must be absent
	}{
		"headers_as_a_map": {
			mapping.Request{
				Method: "GET", Path: "/login?q=1&b=%20x", Host: "127.0.0.1:19110", Scheme: "http", Peer: "127.0.0.1",
				Context: map[string]string{"act": "login", "level": "route", "vhost": "vh"},
			},
			map[string]string{"x-user": "Bob", "x-dup": "a,b", "cookie": "a=1", "x-none": "-"},
		},
		"raw_headers": {
			mapping.Request{Method: "POST", Path: "/x", Host: "127.0.0.1:19141", Scheme: "http", Peer: "127.0.0.1"},
			map[string]string{"x-dup": "a,b", "x-bin": "\xff\xfe", "user-agent": "curl/7.88.1", "x-none": "-"},
		},
		"allowed_headers_hide_the_path": {
			mapping.Request{Method: "GET", Path: "/x?q=1", Host: "127.0.0.1:19149", Scheme: "http", Peer: "127.0.0.1"},
			map[string]string{"x-user": "u", ":path": "-"},
		},
		"no_headers_at_all": {
			mapping.Request{Method: "GET", Path: "/x", Host: "127.0.0.1:19151", Scheme: "http", Peer: "127.0.0.1"},
			map[string]string{"x-user": "-"},
		},
		"dot_segments": {
			mapping.Request{
				Method: "GET", Path: "/norl/../admin/%2e%2e/x%2Fy//z;p=1?a=b%26c", Host: "127.0.0.1:19110", Scheme: "http", Peer: "127.0.0.1",
				Context: map[string]string{"level": "vhost", "vhost": "vh"},
			},
			nil,
		},
		"mutual_tls": {
			mapping.Request{
				Method: "GET", Path: "/x", Host: "127.0.0.1:19144", Scheme: "https", Peer: "127.0.0.1",
				Principal: "spiffe://lab/cli",
			},
			nil,
		},
		"tcp_without_a_request": {
			mapping.Request{Peer: "127.0.0.1", Principal: "spiffe://lab/cli", SNI: "srv.lab"},
			map[string]string{"x-user": "-"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var q question
			q.read(captured(t, name))
			test.want.Door = mapping.ExtAuthz
			if diff := cmp.Diff(test.want, q.request, cmpopts.IgnoreFields(mapping.Request{}, "Headers", "Metadata")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for name, want := range test.headers {
				got, found := q.request.Headers.Header(name)
				if !found {
					got = "-"
				}
				if got != want {
					t.Errorf("header %s is %q; want %q", name, got, want)
				}
			}
		})
	}
}

func TestMissingPartsOfACheckAreEmpty(t *testing.T) {
	for name, check := range map[string]*authv3.CheckRequest{
		"nothing":        nil,
		"no attributes":  {},
		"no source":      {Attributes: &authv3.AttributeContext{}},
		"no http":        {Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{}}},
		"a unix socket":  {Attributes: &authv3.AttributeContext{Source: pipePeer}},
		"empty metadata": {Attributes: &authv3.AttributeContext{MetadataContext: &corev3.Metadata{}}},
	} {
		t.Run(name, func(t *testing.T) {
			var q question
			q.read(check)
			q.request.Headers = nil
			if diff := cmp.Diff(mapping.Request{Door: mapping.ExtAuthz}, q.request); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

var pipePeer = &authv3.AttributeContext_Peer{
	Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/run/envoy.sock"}}},
}

func TestRawHeadersAreJoinedAsEnvoyJoinsThem(t *testing.T) {
	raw := func(key, value string) *corev3.HeaderValue {
		return &corev3.HeaderValue{Key: key, RawValue: []byte(value)}
	}
	headers := rawHeaders{&corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		raw("x-a", "1"), raw("cookie", "a=1"), raw("X-A", "2"), raw("cookie", "b=2"), raw("x-a", ""),
		{Key: "x-text", Value: "plain"},
		raw("x-empty", ""),
	}}}
	for name, want := range map[string]string{
		"x-a": "1,2,", "cookie": "a=1; b=2", "x-text": "plain", "x-empty": "",
	} {
		if got, found := headers.Header(name); !found || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, found, want)
		}
	}
	if got, found := headers.Header("x-none"); found {
		t.Errorf("a header that was not sent is %q", got)
	}
}

func TestMetadataIsFoundByItsDottedPath(t *testing.T) {
	check := new(authv3.CheckRequest)
	err := protojson.Unmarshal([]byte(`{"attributes": {
		"metadata_context": {"filter_metadata": {"jwt": {
			"payload": {"sub": "ann", "level": 3, "share": 0.25, "big": 12345678901, "staff": true, "guest": false,
				"aud": ["a"], "none": null, "example.com/org": "koalas", "empty": ""},
			"a.b": {"c": "long name"}, "a": {"b": {"c": "short names", "d": "only here"}}
		}}},
		"route_metadata_context": {"filter_metadata": {"jwt": {"tier": "gold", "payload": {"sub": "route"}}, "my.route": {"plan": "basic"}}}
	}}`), check)
	if err != nil {
		t.Fatal(err)
	}
	var q question
	q.read(check)
	for _, test := range []struct {
		namespace, path, want string // "-" for one that is not found
	}{
		{"jwt", "payload.sub", "ann"},
		{"jwt", "payload.level", "3"},
		{"jwt", "payload.share", "0.25"},
		{"jwt", "payload.big", "12345678901"},
		{"jwt", "payload.staff", "true"},
		{"jwt", "payload.guest", "false"},
		{"jwt", "payload.empty", ""},
		{"jwt", "payload.example.com/org", "koalas"},
		{"jwt", "a.b.c", "long name"},
		{"jwt", "a.b.d", "only here"},
		{"jwt", "tier", "gold"},
		{"my.route", "plan", "basic"},
		{"jwt", "payload", "-"},
		{"jwt", "payload.aud", "-"},
		{"jwt", "payload.none", "-"},
		{"jwt", "payload.sub.deeper", "-"},
		{"jwt", "payload.nobody", "-"},
		{"jwt", "", "-"},
		{"jwt", ".", "-"},
		{"nobody", "payload.sub", "-"},
	} {
		got, found := q.request.Metadata(test.namespace, test.path)
		if !found {
			got = "-"
		}
		if got != test.want {
			t.Errorf("metadata %s %s is %q; want %q", test.namespace, test.path, got, test.want)
		}
	}
}

func TestAQuestionKeepsNothingOfTheLastCheck(t *testing.T) {
	s := New(Options{})
	q := s.questions.Get().(*question)
	q.read(captured(t, "headers_as_a_map"))
	q.params.Set("uid", "ann")
	q.ask(nil, nil)
	s.release(q)
	if q.params.Len() != 0 || q.request.Context != nil || q.request.Headers != nil || q.call.Sets != nil {
		t.Errorf("a released question holds %+v", q)
	}
}
