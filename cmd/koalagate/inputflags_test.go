package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/mapping"
)

func TestInputFlagsParseTheirValues(t *testing.T) {
	headers, metadata := http.Header{}, explain.Metadata{}
	var entries entriesFlag
	var request requestFlag
	var address addressFlag
	for _, c := range []struct {
		flag  pflag.Value
		texts []string
	}{
		{headerFlag{headers}, []string{"X-User-Id: ann", "x-user-id:bob", "X-Empty:"}},
		{metadataFlag(metadata), []string{"jwt payload.sub=a=1", " jwt  payload.aud =x"}},
		{&entries, []string{"b=1", "a==", "b="}},
		{&request, []string{"GET  /a?b=c HTTP/1.1"}},
		{&address, []string{"203.0.113.7", "[2001:db8::7]:443"}},
	} {
		for _, text := range c.texts {
			if err := c.flag.Set(text); err != nil {
				t.Errorf("%T: %q: %v", c.flag, text, err)
			}
		}
	}
	if diff := cmp.Diff(http.Header{"X-User-Id": {"ann", "bob"}, "X-Empty": {""}}, headers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(explain.Metadata{{Namespace: "jwt", Path: "payload.sub"}: "a=1", {Namespace: "jwt", Path: "payload.aud"}: "x"}, metadata); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]mapping.Entry{{Key: "b", Value: "1"}, {Key: "a", Value: "="}, {Key: "b"}}, []mapping.Entry(entries)); diff != "" {
		t.Error(diff)
	}
	if request.method != "GET" || request.target != "/a?b=c" || address != "[2001:db8::7]:443" {
		t.Errorf("%+v, %s", request, address)
	}
}

func TestInputFlagsRejectMalformedValues(t *testing.T) {
	for _, c := range []struct {
		flag  pflag.Value
		texts []string
		want  string
	}{
		{headerFlag{http.Header{}}, []string{"", "X", ": a", "X Y: a"}, "want 'NAME: VALUE'"},
		{metadataFlag{}, []string{"", "a=b", "a b", "a b c=d"}, "want 'NAMESPACE PATH=VALUE'"},
		{metadataFlag{{Namespace: "a", Path: "b"}: ""}, []string{"a b=c"}, "the same NAMESPACE PATH was set before"},
		{new(entriesFlag), []string{"", "a", "=a"}, "want KEY=VALUE"},
		{new(requestFlag), []string{"", "GET", "GET /a b", "GET /a b HTTP/1.1"}, "want 'METHOD /path'"},
		{new(addressFlag), []string{"", "localhost", "203.0.113.7:http"}, "want an address"},
		{&choice{value: "a", among: []string{"a", "b"}}, []string{"", "c"}, "want a, b"},
	} {
		for _, text := range c.texts {
			if err := c.flag.Set(text); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%T: %q: got %v; want %q", c.flag, text, err, c.want)
			}
		}
	}
}
