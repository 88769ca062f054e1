package extauthz_test

import (
	"context"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/wire/wiretest"
	"github.com/koalagate/koalagate/internal/wiring"
)

// everySource returns rules on every part of a check.
const everySource = `
[params]
uid  : header X-User-Id else cookie uid else query uid else client-ip
key  : header X-Api-Key hashed
sub  : metadata jwt payload.sub else metadata my.route tier
who  : principal else sni
[routes]
GET /v/{id}      : act=view
*   /f/{rest...} : act=file
[rules]
rule : [direct] [path="/admin"] [time=1; count=0;] [result=3; return=1]
rule : [direct] [ip=10.0.0.0/8; sub=+] [time=1; count=0;] [result=2; return=2]
rule : [count] [act=view; id=+] [time=60; count=2;] [result=2; return=3]
rule : [count] [act=file; rest=+; who=+] [time=60; count=1;] [result=4; return=4]
rule : [count] [uid=+] [time=60; count=3; cost=weight] [result=2; return=5]
rule : [count] [key=+] [time=86400; count=1;] [result=3; return=6]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
3 : {"Need_vcode":1}
4 : {"Err_no":11, "Http_status":451, "Grpc_status":9, "Headers":{"X-A":"b"}, "Body":"no"}
`

// FuzzCheck sends arbitrary CheckRequests: each must be answered with a decision that
// Envoy cannot misinterpret.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"attributes": {"source": {"address": {"socket_address": {"address": "10.0.0.1"}}, "principal": "p"}, "tls_session": {"sni": "s"}}}`,
		`{"attributes": {"request": {"http": {"method": "GET", "path": "/v/1?uid=a", "headers": {"x-user-id": "a", "x-koala-rule": "1"}}}}}`,
		`{"attributes": {"request": {"http": {"path": "/f/%zz\u0000", "header_map": {"headers": [{"key": "cookie", "raw_value": "/w=="}]}}}}}`,
		`{"attributes": {"context_extensions": {"act": "view", "id": "a\nb", "weight": "999999999"}}}`,
		`{"attributes": {"metadata_context": {"filter_metadata": {"jwt": {"payload": {"sub": 1e300}}}}}}`,
	} {
		f.Add(wiretest.Marshal(f, request(f, seed)))
	}
	f.Add([]byte("\x0a\x16\x22\x14\x12\x12\x1a\x10\x0a\x0ax-koala-\xffa\x12\x02\xff\xfe"))
	door := wiretest.Open(extauthz.New(extauthz.Options{Engine: engine.New(parse(f, everySource), wiring.CountIn(fixedStore()))}))
	f.Fuzz(func(t *testing.T, wire []byte) {
		answered, err := door.Call(context.Background(), wire)
		if err != nil {
			if err := proto.Unmarshal(wire, new(authv3.CheckRequest)); err == nil {
				t.Fatalf("no decision, but the error %v", err)
			}
			return // grpc refuses it before the door
		}
		reply := new(authv3.CheckResponse)
		if err := proto.Unmarshal(answered, reply); err != nil {
			t.Fatalf("%x cannot be read: %v", answered, err)
		}
		if want := proto.Size(reply); len(answered) != want {
			t.Fatalf("%x takes %d bytes; the library's would take %d", answered, len(answered), want)
		}
		if fault := malformed(reply); fault != "" {
			t.Fatalf("%s: %v", fault, reply)
		}
	})
}
