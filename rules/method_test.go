package rules

import (
	"testing"

	"github.com/koalagate/koalagate/internal/method"
)

// The methods of rules have the numbers of their descriptions.
func TestMethodsHaveTheNumbersOfTheirDescriptions(t *testing.T) {
	for m, number := range map[Method]method.Number{
		Direct: method.Direct, Count: method.Count, Base: method.Base, Leak: method.Leak, Token: method.Token, Hold: method.Hold,
	} {
		if method.Number(m) != number || m.String() != method.Of(number).Name {
			t.Errorf("%s has the number %d; want %d", m, m, number)
		}
	}
	if got := Method(6).String(); got != "method(6)" {
		t.Errorf("method 6 is %q", got)
	}
}
