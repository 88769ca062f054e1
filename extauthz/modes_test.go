package extauthz_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/extauthz"
	"github.com/koalagate/koalagate/internal/wiring"
)

// TestModes: a door in mode observe or off answers OK to checks that it would refuse or
// that cannot be decided, and reports the decision to the upstream.
func TestModes(t *testing.T) {
	for mode, word := range map[engine.Mode]string{engine.ModeObserve: "observed-deny", engine.ModeOff: "off"} {
		modes := new(engine.Modes)
		modes.Set(map[string]engine.Mode{"extauthz": mode})
		c := open(t, outcomes, func(o *extauthz.Options) {
			o.Engine = engine.New(parse(t, outcomes), wiring.CountIn(fixedStore()), engine.WithModes(modes))
		})
		malformed := about("other", nil)
		malformed.Attributes.Request.Http.Path = "/%zz"
		for name, check := range map[string]*authv3.CheckRequest{"a black list": about("black", nil), "a malformed path": malformed} {
			reply, err := c.Check(context.Background(), check)
			if err != nil || reply.GetStatus().GetCode() != 0 || reply.GetOkResponse() == nil {
				t.Fatalf("%s, %s: %v, %v; want OK", mode, name, reply, err)
			}
			if got := reply.GetOkResponse().GetHeaders()[0].GetHeader(); got.GetKey() != "X-Koala-Decision" || got.GetValue() != word {
				t.Errorf("%s, %s: the upstream receives %v; want %s", mode, name, got, word)
			}
			// A forged header must not pass for ours, even if the check hides it.
			set := names(reply.GetOkResponse().GetHeaders())
			for _, header := range []string{"X-Koala-Rule", "X-Koala-Result", "X-Koala-Degraded"} {
				_, isSet := set[strings.ToLower(header)]
				if isSet == slices.Contains(reply.GetOkResponse().GetHeadersToRemove(), header) {
					t.Errorf("%s, %s: %s is overwritten %t; want it overwritten or else removed", mode, name, header, isSet)
				}
			}
			if got := reply.GetDynamicMetadata().GetFields()["verdict"].GetStringValue(); got != word {
				t.Errorf("%s, %s: the metadata has %q; want %q", mode, name, got, word)
			}
		}
	}
}
