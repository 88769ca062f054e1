package extauthz_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
)

// present returns rules for every part of a check. The shadow rules in the metadata of
// the reply list the parts that were present.
func present() string {
	var b strings.Builder
	b.WriteString(`
[params]
head : header X-Head
cook : cookie c
quer : query q
meta : metadata n k
rout : metadata r k
prin : principal
serv : sni
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
[rules]
`)
	for i, name := range strings.Fields("method path host scheme ip head cook quer meta rout prin serv act uid") {
		fmt.Fprintf(&b, "rule : [direct] [%s=+] [] [result=2; return=%d; shadow=1]\n", name, i+1)
	}
	return b.String()
}

// The memory of a check is reused. Whatever the previous check contained, and wherever
// it was corrupt, the reply must equal a new door's.
func TestReplyContainsNothingOfEarlierChecks(t *testing.T) {
	const rich = `{"attributes": {
		"source": {"address": {"socket_address": {"address": "192.0.2.1"}}, "principal": "p"}, "tls_session": {"sni": "s"},
		"context_extensions": {"act": "a", "uid": "u"},
		"metadata_context": {"filter_metadata": {"n": {"k": "v"}}}, "route_metadata_context": {"filter_metadata": {"r": {"k": "v"}}},
		"request": {"http": {"method": "GET", "path": "/?q=1", "host": "h", "scheme": "https", HEADERS}}}}`
	var checks [][]byte
	for _, text := range []string{
		`{}`,
		`{"attributes": {"request": {"http": {"method": "GET", "path": "/"}}}}`,
		`{"attributes": {"request": {"http": {"path": "/%zz"}}}}`,
		`{"attributes": {"request": {"http": {"header_map": {}}}}}`,
		strings.Replace(rich, "HEADERS", `"headers": {"x-head": "h", "cookie": "c=1", "x-koala-forged": "1"}`, 1),
		strings.Replace(rich, "HEADERS", `"header_map": {"headers": [{"key": "x-head", "raw_value": "YQ=="}, {"key": "cookie", "raw_value": "Yz0x"}, {"key": "x-koala-raw", "raw_value": "YQ=="}]}`, 1),
	} {
		checks = append(checks, wiretest.Marshal(t, request(t, text)))
	}
	var replies [][]byte
	for _, check := range checks {
		alone := fixedStore()
		defer alone.Close()
		replies = append(replies, reply(t, wiretest.Open(extauthz.New(extauthz.Options{Engine: engine.New(parse(t, present()), wiring.CountIn(alone))})), check))
	}
	whole := checks[4]
	if len(replies[4]) < 200 {
		t.Fatal("the check of everything meets no rules")
	}
	for end := range whole {
		checks = append(checks, whole[:end])
	}
	counters := fixedStore()
	defer counters.Close()
	used := wiretest.Open(extauthz.New(extauthz.Options{Engine: engine.New(parse(t, present()), wiring.CountIn(counters))}))
	for i, check := range checks {
		for j, want := range replies {
			reply(t, used, check)
			if got := reply(t, used, checks[j]); !bytes.Equal(got, want) {
				t.Fatalf("after check %d, check %d is answered %q; want %q", i, j, got, want)
			}
		}
	}
}

// reply returns nil for a check that cannot be read.
func reply(t *testing.T, door *wiretest.Front, check []byte) []byte {
	answer, err := door.Call(t.Context(), check)
	if err != nil {
		return nil
	}
	return answer
}
