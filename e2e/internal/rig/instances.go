package rig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/internal/doorname"
)

// ExactRules have the limits of the tests of exactness.
const ExactRules = `
[params]
uid : header X-User-Id
[forward]
X-User-Id : uid
[routes]
POST /api/comments : act=comment
[rules]
rule : [count] [act=comment; uid=+] [time=3600; count=25;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10, "Str_reason":"Deny"}
`

// LimitedTo returns a rule file with a limit of count comments per user.
func LimitedTo(count int) string {
	return strings.Replace(ExactRules, "count=25", fmt.Sprintf("count=%d", count), 1)
}

// Readyz returns an instance's readiness, and fails the test without an answer.
func Readyz(t *testing.T, k *e2e.Koalagate) e2e.Readiness {
	t.Helper()
	return Must(k.Readyz())(t)
}

// WithoutRedis starts an instance without its Redis, with the same policy for every
// door.
func WithoutRedis(h *Fixture, policy string) *e2e.Koalagate {
	h.Helper()
	gone := h.Redis()
	if err := gone.Kill(); err != nil {
		h.Fatal(err)
	}
	doors := doorname.Served()
	said := strings.Join(doors, "="+policy+",") + "=" + policy
	rules := h.File("away-"+policy+".conf", `
[params]
from : client-ip else descriptor remote_address
[rules]
rule : [count] [from=+] [time=3600; count=1;] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`)
	return Must(h.Stage.Koalagate(Binary, []string{"KOALAGATE_DRAIN_WAIT=0s", "KOALAGATE_FAIL_POLICIES=" + said}, "--rules", rules, "--redis", gone.URL()))(h.T)
}
