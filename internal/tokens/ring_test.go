package tokens_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// Lines that read different claims have different verifiers, however alike their texts are.
func TestLinesWithOtherClaimsShareNoVerifier(t *testing.T) {
	ring := tokens.NewRing(tokens.Options{Remembered: 100})
	text := []byte(`{"keys":[` + jwk("rsa", "rsa") + `]}`)
	open := func(claims ...rules.Claim) rules.JWTVerifier {
		line := terms()
		line.Claims = claims
		verifier, _, err := ring.Open(line, text)
		if err != nil {
			t.Fatal(err)
		}
		return verifier
	}
	list := [][]rules.Claim{
		{{Path: []string{"a", "b"}}},
		{{Path: []string{"a b"}}},
		{{Path: []string{"a"}, Has: "b"}},
		{{Path: []string{"a"}}, {Path: []string{"b"}}},
		{{Path: []string{"a] } {[b"}}},
	}
	var opened []rules.JWTVerifier
	for i, claims := range list {
		verifier := open(claims...)
		if same := slices.Index(opened, verifier); same >= 0 {
			t.Errorf("%q and %q share a verifier", list[same], list[i])
		}
		if open(claims...) != verifier {
			t.Errorf("%q has two verifiers", claims)
		}
		opened = append(opened, verifier)
	}
	runtime.KeepAlive(opened)
}
