package envoy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

func (f *extAuthzFacts) defaultDeadline(t *testing.T) {
	rig.WaitUntil(t, "a call comes before its deadline", func() bool {
		f.get(t, "default", "/deadline", allowed())
		return len(f.stub.callsOf("/deadline")) > 0
	})
	if c := f.stub.last(t, "/deadline"); !c.hasDeadline || c.left > 200*time.Millisecond {
		t.Errorf("the call had %v left, and a deadline: %t; want at most 200 ms", c.left, c.hasDeadline)
	}
}

func (f *extAuthzFacts) headerForms(t *testing.T) {
	f.get(t, "strict", "/form-map", allowed(), "X-Dup: a", "X-Dup: b", "Cookie: c=1", "Cookie: d=2")
	asMap := f.stub.last(t, "/form-map").check.GetAttributes().GetRequest().GetHttp()
	if asMap.GetHeaders()["x-dup"] != "a,b" || asMap.GetHeaders()["cookie"] != "c=1,d=2" || asMap.GetHeaderMap() != nil {
		t.Errorf("the map is %v, the list %v; want the values of X-Dup and of Cookie joined by a comma, and no list", asMap.GetHeaders(), asMap.GetHeaderMap())
	}
	f.get(t, "raw", "/form-raw", allowed(), "X-Dup: a", "X-Dup: b", "X-Bytes: \xff\xfe")
	raw := f.stub.last(t, "/form-raw").check.GetAttributes().GetRequest().GetHttp()
	var dup []string
	bytes := ""
	for _, h := range raw.GetHeaderMap().GetHeaders() {
		switch h.GetKey() {
		case "x-dup":
			dup = append(dup, string(h.GetRawValue()))
		case "x-bytes":
			bytes = string(h.GetRawValue())
		}
	}
	if !slices.Equal(dup, []string{"a", "b"}) || bytes != "\xff\xfe" || len(raw.GetHeaders()) != 0 {
		t.Errorf("raw headers %v, and a map %v; want X-Dup twice, the bytes as they are and no map", raw.GetHeaderMap(), raw.GetHeaders())
	}
}

func (f *extAuthzFacts) rawPath(t *testing.T) {
	const path = "/a/./%2e/b//c?q=1&r=%20"
	url := "http://" + f.envoy.Listeners["few"] + path
	rig.WantStatus(t, 200, "GET", url, "X-User: ann", "X-Other: hidden")
	got := f.stub.last(t, path).check.GetAttributes().GetRequest().GetHttp()
	if got.GetMethod() != "GET" || got.GetScheme() != "http" || got.GetHost() != f.envoy.Listeners["few"] {
		t.Errorf("the check contains %s %s %s; want GET, http and the host with its port", got.GetMethod(), got.GetScheme(), got.GetHost())
	}
	if len(got.GetHeaders()) != 1 || got.GetHeaders()["x-user"] != "ann" {
		t.Errorf("with allowed_headers the check contains %v; want only x-user, no pseudo header", got.GetHeaders())
	}
}

func (f *extAuthzFacts) sourceIsPeer(t *testing.T) {
	f.get(t, "strict", "/source", allowed(), "X-Forwarded-For: 198.51.100.66", "X-Envoy-External-Address: 198.51.100.66", "X-Real-IP: 198.51.100.66")
	got := f.stub.last(t, "/source").check.GetAttributes().GetSource().GetAddress().GetSocketAddress().GetAddress()
	if got != "127.0.0.1" {
		t.Errorf("the source is %s; want the peer's address", got)
	}
}

func (f *extAuthzFacts) externalAddress(t *testing.T) {
	forged := "X-Envoy-External-Address: 198.51.100.66"
	for on, want := range map[string]string{"strict": "127.0.0.1", "behind": "203.0.113.9"} {
		path := "/external-" + on
		f.get(t, on, path, allowed(), "X-Forwarded-For: 198.51.100.66, 203.0.113.9", forged)
		got := f.stub.last(t, path).check.GetAttributes()
		if address := got.GetRequest().GetHttp().GetHeaders()["x-envoy-external-address"]; address != want {
			t.Errorf("%s: x-envoy-external-address is %q; want %q", on, address, want)
		}
		if peer := got.GetSource().GetAddress().GetSocketAddress().GetAddress(); peer != "127.0.0.1" {
			t.Errorf("%s: the source is %s; want the peer's address", on, peer)
		}
	}
}

func (f *extAuthzFacts) contextAndMetadata(t *testing.T) {
	f.get(t, "strict", "/context", allowed(), "X-Tenant: acme")
	got := f.stub.last(t, "/context").check.GetAttributes()
	if act := got.GetContextExtensions()["act"]; act != "route" {
		t.Errorf("act is %q; want the route's value", act)
	}
	for space, want := range map[string]string{"facts": "acme", "facts.route": "gold"} {
		metadata := got.GetMetadataContext()
		if space == "facts.route" {
			metadata = got.GetRouteMetadataContext()
		}
		fields := metadata.GetFilterMetadata()[space].GetFields()
		if fields["tenant"].GetStringValue()+fields["tier"].GetStringValue() != want {
			t.Errorf("the metadata of %s is %v; want %s in it", space, fields, want)
		}
	}
}
