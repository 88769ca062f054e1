package rules

import (
	"strings"
	"testing"
)

// TestWarningsAboutDoorsNeedEvidence checks the files without [params] and [routes] that
// are evidently for gateways. In any other file an application may send parameters
// with the names of derived ones.
func TestWarningsAboutDoorsNeedEvidence(t *testing.T) {
	for conditions, want := range map[string]string{
		"door=front; uid=+":                               "",
		"door=front,koala; uid=+":                         "W020",
		"door=ratelimt; uid=+":                            "W020",
		"door!=ratelimt; uid=+":                           "W020",
		"door=nginx; uid=+":                               "W020",
		"door=Envoy; uid=+":                               "W020",
		"door=extauthz; uid=+; act=ask":                   "",
		"door=ext-authz; ip=+; path=/x; method=GET":       "",
		"door=ext-authz; uid=+":                           "W014",
		"door=ext-authz,extauthz; uid=+":                  "",
		"door!=ext-authz; uid=+":                          "",
		"door=forward-auth; client-ip=+":                  "W014",
		"door=koala,forward-auth; client-ip=+":            "",
		"door=ratelimit; client-ip=+; remote_address=+":   "",
		"client-ip=+; uid=+":                              "",
		"method=get; path=x; scheme=HTTPS; host=A; ip=no": "",
	} {
		text := "[rules]\nrule : [count] [" + conditions + "] [time=60; count=5] [result=2; return=1]\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n"
		_, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{})
		var codes []string
		for _, f := range findings {
			codes = append(codes, f.Code)
		}
		if got := strings.Join(codes, " "); got != want {
			t.Errorf("%s: got %q, want %q:\n%v", conditions, got, want, findings)
		}
	}
}

// A route constant is the only source of its parameter, unless another one is declared.
func TestWarningsAboutConstants(t *testing.T) {
	const routes = "[routes]\nPOST /ask : act=ask; n=3; ip=10.0.0.1\nGET /{act} : kind=other\nGET /x : kind=x\n"
	for conditions, want := range map[string]string{
		"kind=other":             "",
		"kind=othr":              `no route sets kind to "othr"`,
		"kind=other,y":           `no route sets kind to "y"`,
		"kind!=y":                `no route sets kind to "y"`,
		"kind=+":                 "",
		"kind!=+; n!=+":          "",
		"kind @ vip":             "",
		"kind !@ vip":            "",
		"kind!=other,x":          "no route sets kind to a value for which this holds",
		"act=no; ip=10.0.0.9":    "",
		"n=1-5":                  "",
		"n=4-5":                  "no route sets n to a value for which this holds",
		"n>2; kind=x{~}":         "",
		"n>3":                    "no route sets n to a value for which this holds",
		"kind=y; door=koala":     "",
		"kind=y; door=ratelimit": "",
		"kind=y; domain=edge":    "",
		"kind=y; door=accel":     `no route sets kind to "y"`,
	} {
		text := "[dicts]\nvip : vip.dat\n" + routes + "[rules]\nrule : [count] [" + conditions + "] [time=60; count=5] [result=2; return=1]\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n"
		_, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{OpenDict: func(_, path string) (*Dict, error) {
			return ParseDict(path, strings.NewReader("7\n"))
		}})
		var messages []string
		for _, f := range findings {
			if f.Code == warnNoConstant.ID {
				messages = append(messages, f.Message)
			}
		}
		if got := strings.Join(messages, "; "); got != want {
			t.Errorf("%s: got %q, want %q", conditions, got, want)
		}
	}
}
