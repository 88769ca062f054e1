package extauthz_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/wiring"
)

const forwarding = `
[params]
user : header x-uid
[forward]
X-User-Id : user
X-Plan    : plan
` + outcomes

// Envoy sets the forwarded headers that have a value and removes the others, and other
// spellings of them, in every mode.
func TestForward(t *testing.T) {
	for _, mode := range []engine.Mode{engine.ModeEnforce, engine.ModeObserve, engine.ModeOff} {
		modes := new(engine.Modes)
		modes.Set(map[string]engine.Mode{"extauthz": mode})
		c := open(t, forwarding, func(o *extauthz.Options) {
			o.Engine = engine.New(parse(t, forwarding), wiring.CountIn(fixedStore()), engine.WithModes(modes))
		})
		for name, test := range map[string]struct {
			headers  map[string]string
			set      map[string]string
			removed  []string
			isBroken bool
		}{
			"a user":            {map[string]string{"x-uid": "ann"}, map[string]string{"x-user-id": "ann"}, []string{"X-Plan"}, false},
			"nobody":            {map[string]string{"x-user-id": "mallory", "x_user_id": "mallory", "x-user_id": "m"}, nil, []string{"X-User-Id", "X-Plan", "x_user_id", "x-user_id"}, false},
			"a claim":           {map[string]string{"x-uid": "ann", "x-user-id": "mallory", "x_user_id": "mallory"}, map[string]string{"x-user-id": "ann"}, []string{"X-Plan", "x_user_id"}, false},
			"a long user":       {map[string]string{"x-uid": strings.Repeat("u", 1025)}, nil, []string{"X-User-Id"}, false},
			"a newline":         {map[string]string{"x-uid": "a\nb"}, nil, []string{"X-User-Id"}, false},
			"a malformed path":  {map[string]string{"x-uid": "ann"}, map[string]string{"x-user-id": "ann"}, []string{"X-Plan"}, true},
			"no plan, by route": {map[string]string{"x-plan": "gold"}, nil, []string{"X-Plan"}, false},
		} {
			request := about("other", test.headers)
			if test.isBroken {
				request.Attributes.Request.Http.Path = "/%zz"
			}
			reply, err := c.Check(context.Background(), request)
			ok := reply.GetOkResponse()
			if err != nil || (ok == nil) != (test.isBroken && mode == engine.ModeEnforce) {
				t.Fatalf("%s, %s: %v, %v", mode, name, reply, err)
			}
			if ok == nil {
				continue
			}
			got := make(map[string]string)
			for _, h := range ok.GetHeaders() {
				if value := h.GetHeader().GetValue(); value != "" {
					got[strings.ToLower(h.GetHeader().GetKey())] = value
				} else {
					t.Errorf("%s, %s: %s is set to nothing", mode, name, h.GetHeader().GetKey())
				}
			}
			for _, header := range []string{"x-user-id", "x-plan"} {
				if got[header] != test.set[header] {
					t.Errorf("%s, %s: %s is %q; want %q", mode, name, header, got[header], test.set[header])
				}
				if isRemoved := slices.ContainsFunc(ok.GetHeadersToRemove(), func(h string) bool { return strings.EqualFold(h, header) }); isRemoved == (test.set[header] != "") {
					t.Errorf("%s, %s: %s is removed: %t", mode, name, header, isRemoved)
				}
			}
			for _, header := range test.removed {
				if !slices.Contains(ok.GetHeadersToRemove(), header) {
					t.Errorf("%s, %s: %q are removed; want %s, too", mode, name, ok.GetHeadersToRemove(), header)
				}
			}
		}
	}
}

// Text that is not UTF-8 would make the answer unreadable, and Envoy might let the request
// through with the client's header.
func TestForwardNotUTF8(t *testing.T) {
	c := open(t, forwarding, nil)
	request := about("other", nil)
	request.Attributes.Request.Http.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "x-uid", RawValue: []byte("\xffann")}, {Key: "x-user-id", Value: "mallory"}}}
	reply, err := c.Check(context.Background(), request)
	if err != nil || reply.GetOkResponse() == nil || !slices.Contains(reply.GetOkResponse().GetHeadersToRemove(), "X-User-Id") {
		t.Fatalf("%v, %v; want X-User-Id removed", reply, err)
	}
	if denied, err := c.Check(context.Background(), about("black", map[string]string{"x-uid": "ann"})); err != nil || strings.Contains(denied.String(), "ann") {
		t.Errorf("a refusal tells who asks: %v, %v", denied, err)
	}
}
