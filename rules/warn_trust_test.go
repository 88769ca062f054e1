package rules

import (
	"slices"
	"strings"
	"testing"
)

// TestWarningsOfTrust checks which rules are reported, and by which other rules a report
// becomes unnecessary. A case has lines of [rules], with [params] and [routes] in front.
func TestWarningsOfTrust(t *testing.T) {
	const declared = `[dicts]
vip : vip.dat
gold : gold.dat
[params]
uid   : header X-User-Id else client-ip
name  : header X-Name
key   : header X-Api-Key hashed
twin  : header X-Api-Key hashed
sid   : cookie sid else client-ip
role  : metadata ns role
user  : header X-User-Id else cookie uid else client-ip
token : metadata ns sub else query token hashed
act   : gateway
[routes]
POST /a/{id} : kind=a
* /b/        : kind=b
[rules]
`
	limit := func(conditions string) string { return "[count] [" + conditions + "] [time=60; count=5] [result=2; " }
	direct := func(conditions, result string) string {
		return "[direct] [" + conditions + "] [] [result=" + result + "; "
	}
	for name, c := range map[string]struct {
		rules []string
		want  string
	}{
		"a header without a fallback":                 {[]string{limit("name=+")}, "W042"},
		"and conditions on the request":               {[]string{limit("name=+; id=+; kind=a; path=+; method!=GET")}, "W042"},
		"and another value of the client":             {[]string{limit("name=+; key>3")}, "W042 W046"},
		"not in the identity":                         {[]string{limit("name=+{~}; host=+")}, ""},
		"with a trusted value":                        {[]string{limit("name=+; role=+")}, "W045"},
		"with the address":                            {[]string{limit("name=+; ip=+")}, "W045"},
		"with the address, and a limit by it":         {[]string{limit("name=+; ip=+"), limit("ip=+")}, ""},
		"and a limit by address":                      {[]string{limit("name=+"), limit("ip=+")}, ""},
		"and a limit by address of others":            {[]string{limit("name=+; kind=a"), limit("ip=+; kind=b")}, "W042"},
		"and a limit by address of more":              {[]string{limit("name=+; kind=a"), limit("ip=+; kind=a,b{~}")}, ""},
		"and a limit by address in the shadow":        {[]string{limit("name=+"), limit("ip=+") + "shadow=1; "}, "W042"},
		"and a limit by address of most":              {[]string{limit("name=+"), limit("ip !@ vip")}, ""},
		"and a limit by address of some":              {[]string{limit("name=+"), limit("ip=10.0.0.0/8")}, "W042"},
		"and a limit by address at another door":      {[]string{limit("name=+"), limit("ip=+; door=accel")}, "W042"},
		"and a limit for the others":                  {[]string{limit("name=+"), limit("name!=+; ip=+")}, ""},
		"and the others are refused":                  {[]string{direct("name!=+", "2"), limit("name=+")}, ""},
		"and the others are allowed":                  {[]string{direct("name!=+", "1"), limit("name=+")}, ""},
		"and a limit by another client's value":       {[]string{limit("name=+"), limit("sid=+")}, "W042 W045"},
		"two names of a header":                       {[]string{limit("key=+"), limit("twin!=+; ip=+")}, "W045"},
		"a header with a fallback":                    {[]string{limit("uid=+")}, ""},
		"a header with a fallback, negated":           {[]string{limit("uid !@ vip")}, "W045"},
		"a header with a fallback, negated, joint":    {[]string{limit("uid !@ vip{~}; ip=+")}, ""},
		"a header with a fallback in a list":          {[]string{limit("uid @ vip")}, ""},
		"a cookie with a fallback":                    {[]string{limit("sid=+")}, "W045"},
		"a header with a cookie as a fallback":        {[]string{limit("user=+")}, "W045"},
		"and a limit by address for it":               {[]string{limit("user=+"), limit("ip=+")}, ""},
		"a claim with a query as a fallback":          {[]string{limit("token=+")}, "W045"},
		"a key without a fallback":                    {[]string{limit("key=+")}, "W042"},
		"a key, and its absence is refused":           {[]string{direct("key!=+", "2"), limit("key=+")}, "W045"},
		"a key, and unknown keys are refused":         {[]string{direct("key!=+", "2"), direct("key !@ gold", "2"), limit("key=+")}, ""},
		"a key, and unknown twins are refused":        {[]string{direct("key!=+", "2"), direct("twin !@ gold", "2"), limit("key=+")}, ""},
		"a key, and unknown keys are refused at b":    {[]string{direct("key!=+", "2"), direct("key !@ gold; kind=b", "2"), limit("key=+")}, "W045"},
		"unknown keys":                                {[]string{limit("key !@ gold")}, "W045 W047"},
		"unknown keys by address":                     {[]string{limit("key !@ gold; ip=+")}, "W045 W047"},
		"unknown keys together":                       {[]string{limit("key !@ gold{~}; ip=+"), limit("key!=+; ip=+")}, ""},
		"absence avoids a refusal":                    {[]string{direct("role!=admin; kind=a", "2")}, "W047"},
		"absence avoids a refusal, with a limit":      {[]string{direct("role!=admin", "2"), limit("ip=+")}, "W047"},
		"absence is refused, too":                     {[]string{direct("role!=admin", "2"), direct("role!=+", "2")}, ""},
		"absence has a limit of its own":              {[]string{direct("role!=admin", "2"), limit("role!=+; ip=+")}, ""},
		"absence avoids a limit":                      {[]string{limit("role!=admin; uid=+")}, "W047"},
		"absence avoids a limit, with another":        {[]string{limit("role!=admin; uid=+"), limit("ip=+")}, ""},
		"absence does not allow":                      {[]string{direct("role!=guest", "1")}, ""},
		"a value that always exists":                  {[]string{direct("ip!=10.0.0.0/8; uid!=7; method!=GET", "2")}, ""},
		"a value of a route":                          {[]string{limit("kind!=a; ip=+")}, ""},
		"allowed by a header":                         {[]string{direct("uid @ vip", "1")}, "W044"},
		"allowed by a header on a path":               {[]string{direct("uid=7; path=/x; kind=a; id=+", "1")}, "W044"},
		"allowed by a header and the address":         {[]string{direct("uid=7; ip=10.0.0.0/8", "1")}, ""},
		"allowed by a header and a trusted value":     {[]string{direct("uid=7; role=admin", "1")}, ""},
		"allowed by a header and the gateway's value": {[]string{direct("uid=7; act=post", "1")}, ""},
		"allowed by a header in the shadow":           {[]string{direct("uid=7", "1") + "shadow=1; "}, ""},
		"allowed by a secret":                         {[]string{direct("key @ gold", "1")}, ""},
		"allowed by any secret":                       {[]string{direct("key=+", "1")}, "W044"},
		"allowed without a key":                       {[]string{direct("key!=+; kind=a", "1")}, ""},
		"allowed by a route":                          {[]string{direct("kind=a", "1")}, ""},
		"refused by a header":                         {[]string{direct("uid @ vip", "2")}, ""},
		"allowed at Koala's API":                      {[]string{direct("uid @ vip; door=koala", "1")}, ""},
		"cost by a header":                            {[]string{"[count] [ip=+] [time=60; count=5; cost=name] [result=2; "}, "W043"},
		"cost by a header at the rate limit service":  {[]string{"[count] [ip=+; door=ratelimit] [time=60; count=5; cost=name] [result=2; "}, ""},
		"cost by the gateway":                         {[]string{"[count] [ip=+] [time=60; count=5; cost=act] [result=2; "}, ""},
		"cost by the path":                            {[]string{"[count] [ip=+] [time=60; count=5; cost=id] [result=2; "}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			text.WriteString(declared)
			for i, r := range c.rules {
				text.WriteString("rule : " + r + "return=" + string(rune('1'+i)) + "]\n")
			}
			text.WriteString("[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n")
			if got := trustCodes(t, text.String()); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// trustCodes returns the codes of the findings about trust in order, each once.
func trustCodes(t *testing.T, text string) string {
	t.Helper()
	_, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{OpenDict: func(_, path string) (*Dict, error) {
		entry := "7\n"
		if path == "gold.dat" { // for hashed keys
			entry = "2bb80d537b1da3e38bd30361aa855686\n"
		}
		return ParseDict(path, strings.NewReader(entry))
	}})
	var codes []string
	for _, f := range findings {
		if f.Severity == Error {
			t.Error(f)
		}
		if f.Code >= "W040" && f.Code != warnMore.ID {
			codes = append(codes, f.Code)
		}
	}
	slices.Sort(codes)
	return strings.Join(slices.Compact(codes), " ")
}
