package extauthz

import (
	"bytes"
	"os"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// captured returns a check in wire form that Envoy 1.40 sent, from testdata.
func captured(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return fromJSON(t, string(text))
}

// fromJSON returns a check in wire form.
func fromJSON(t testing.TB, text string) []byte {
	t.Helper()
	check := new(authv3.CheckRequest)
	if err := protojson.Unmarshal([]byte(text), check); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	message, err := proto.Marshal(check)
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// checkOf returns a check that the door has read and filled.
func checkOf(t testing.TB, encoded []byte) *check {
	t.Helper()
	c := new(check)
	if err := c.UnmarshalBinary(encoded); err != nil {
		t.Fatal(err)
	}
	c.fill()
	return c
}

func TestCheckIsReadFromItsFields(t *testing.T) {
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
			c := checkOf(t, captured(t, name))
			test.want.Door = doorname.ExtAuthz
			if diff := cmp.Diff(test.want, c.question.Request, cmpopts.IgnoreFields(mapping.Request{}, "Headers", "Metadata")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for name, want := range test.headers {
				got, found := c.question.Request.Headers.Header(name)
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
	for name, check := range map[string]string{
		"nothing":        `{}`,
		"no source":      `{"attributes": {}}`,
		"no http":        `{"attributes": {"request": {}}}`,
		"a unix socket":  `{"attributes": {"source": {"address": {"pipe": {"path": "/run/envoy.sock"}}}}}`,
		"empty metadata": `{"attributes": {"metadata_context": {}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := checkOf(t, fromJSON(t, check))
			c.question.Request.Headers = nil
			if diff := cmp.Diff(mapping.Request{Door: doorname.ExtAuthz}, c.question.Request); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestHeadersWithSeveralValuesAreJoined(t *testing.T) {
	raw := &message{isRaw: true, raw: []rules.Header{
		{Name: "x-a", Value: "1"},
		{Name: "cookie", Value: "a=1"},
		{Name: "X-A", Value: "2"},
		{Name: "cookie", Value: "b=2,c=3"},
		{Name: "x-a"},
		{Name: "x-empty"},
	}}
	joined := &message{headers: []rules.Header{
		{Name: "x-a", Value: "1,2,"}, {Name: "x-empty", Value: "before"}, {Name: "cookie", Value: "a=1,b=2"}, {Name: "x-empty"},
	}}
	for _, test := range []struct {
		headers    *message
		name, want string
	}{
		{raw, "x-a", "1,2,"},
		{raw, "cookie", "a=1; b=2,c=3"},
		{raw, "x-empty", ""},
		{joined, "x-a", "1,2,"},
		{joined, "cookie", "a=1; b=2"}, // no cookie hides behind another
		{joined, "x-empty", ""},
	} {
		if got, found := test.headers.Header(test.name); !found || got != test.want {
			t.Errorf("%s is %q, %v; want %q", test.name, got, found, test.want)
		}
	}
	for _, headers := range []*message{raw, joined, {}, {isRaw: true}} {
		if got, found := headers.Header("x-none"); found {
			t.Errorf("a header that was not sent is %q", got)
		}
	}
}

func TestMetadataLookupByDottedPath(t *testing.T) {
	c := checkOf(t, fromJSON(t, `{"attributes": {
		"metadata_context": {"filter_metadata": {"jwt": {
			"payload": {"sub": "ann", "level": 3, "share": 0.25, "big": 12345678901, "staff": true, "guest": false,
				"aud": ["a"], "none": null, "example.com/org": "koalas", "empty": ""},
			"a.b": {"c": "long name"}, "a": {"b": {"c": "short names", "d": "only here"}}
		}}},
		"route_metadata_context": {"filter_metadata": {"jwt": {"tier": "gold", "payload": {"sub": "route"}}, "my.route": {"plan": "basic"}}}
	}}`))
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
		got, found := c.question.Request.Metadata(test.namespace, test.path)
		if !found {
			got = "-"
		}
		if got != test.want {
			t.Errorf("metadata %s %s is %q; want %q", test.namespace, test.path, got, test.want)
		}
	}
}

func TestEndedCheckKeepsNothing(t *testing.T) {
	for name, checks := range map[string][]byte{
		"an ordinary check": fromText(t, whole),
		"raw headers":       fromText(t, raw),
		"a large check":     bytes.Repeat(fromText(t, whole), 300),
	} {
		c := checkOf(t, checks)
		c.server = New(Options{})
		c.reply = make([]byte, 1<<20)
		c.End()
		a := &c.message
		if c.server != nil || c.question.Request.Context != nil || c.question.Request.Headers != nil || cap(c.reply) > 1<<16 {
			t.Errorf("%s: an ended check holds %+v", name, c)
		}
		// The memory is kept without the strings, which are parts of the whole check.
		for _, header := range append(a.headers[:cap(a.headers)], a.raw[:cap(a.raw)]...) {
			if header != (rules.Header{}) {
				t.Errorf("%s: %q is kept", name, header)
			}
		}
		got := cmp.Diff(&message{}, a, cmp.AllowUnexported(message{}), cmpopts.EquateEmpty())
		if got != "" || cap(a.headers) > 128 || cap(a.metadata) > 16<<10 {
			t.Errorf("%s: %d headers, %d bytes of metadata and this are kept:\n%s", name, cap(a.headers), cap(a.metadata), got)
		}
	}
}
