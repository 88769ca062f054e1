package mapping_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// subject finds each token valid, whose claims are its text.
type subject struct{ of *rules.JWT }

func (v subject) Verify(token string) (rules.JWTOutcome, []string) {
	claims := make([]string, len(v.of.Claims))
	for i := range claims {
		claims[i] = token
	}
	return rules.JWTValid, claims
}

// namedToken returns a set of rules whose token has this name, with as many other claims before
// the user's.
func namedToken(t *testing.T, name string, others int) *rules.Set {
	t.Helper()
	var params strings.Builder
	for i := range others {
		fmt.Fprintf(&params, "other%d : jwt %s other%d\n", i, name, i)
	}
	text := fmt.Sprintf("[tokens]\n%[1]s : keys.json; issuer=i\n[params]\n%[2]suid : jwt %[1]s sub\n[rules]\nrule : [count] [jwt.%[1]s=valid; uid=+] [time=60; count=5] [result=2; return=1]\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n", name, params.String())
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(text)}}, rules.Options{
		OpenKeys:  func(_, _ string) ([]byte, error) { return nil, nil },
		OpenToken: func(of *rules.JWT, _ []byte) (rules.JWTVerifier, []error, error) { return subject{of}, nil, nil },
	})
	if set == nil {
		t.Fatal(findings)
	}
	return set
}

// A rule file that renames its token while requests run decides each by one name: the outcome and
// the claims are of the same rules, also in parameters that are used again.
func TestTokensAreRenamedWhileRequestsRun(t *testing.T) {
	sets := []*rules.Set{namedToken(t, "main", 0), namedToken(t, "corp", 3)}
	var inForce atomic.Pointer[rules.Set]
	inForce.Store(sets[0])
	var askers sync.WaitGroup
	for asker := range 4 {
		askers.Go(func() {
			var p rules.Params
			user := fmt.Sprintf("user-%d", asker)
			request := &mapping.Request{
				Door: doorname.Middleware, Method: "GET", Path: "/", Host: "h", Peer: "203.0.113.9",
				Headers: mapping.HTTPHeaders{"Authorization": {"Bearer " + user}},
			}
			for range 2000 {
				set := inForce.Load()
				if err := mapping.Params(set, request, &mapping.Options{}, &p); err != nil {
					t.Error(err)
					return
				}
				own, other := "jwt.main", "jwt.corp"
				if set == sets[1] {
					own, other = other, own
				}
				outcome, _ := p.Get(own)
				uid, _ := p.Get("uid")
				if _, stale := p.Get(other); outcome != "valid" || uid != user || stale {
					t.Errorf("%s is %q, uid is %q, %s is there: %t; want valid, %s and false", own, outcome, uid, other, stale, user)
					return
				}
			}
		})
	}
	for n := range 2000 {
		inForce.Store(sets[n%2])
	}
	askers.Wait()
}
