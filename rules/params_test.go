package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParams(t *testing.T) {
	for line, want := range map[string]*ParamDecl{
		"uid : header X-User-Id else cookie uid else client-ip": {Name: "uid", Sources: []ParamSource{
			{Kind: FromHeader, Name: "x-user-id"}, {Kind: FromCookie, Name: "uid"}, {Kind: FromClientIP, V4: -1, V6: -1},
		}},
		"tenant : header X-Api-Key hashed else query key  # a secret": {Name: "tenant", Sources: []ParamSource{
			{Kind: FromHeader, Name: "x-api-key", Hashed: true}, {Kind: FromQuery, Name: "key"},
		}},
		"sub : metadata envoy.filters.http.jwt_authn payload.sub": {Name: "sub", Sources: []ParamSource{
			{Kind: FromMetadata, Name: "envoy.filters.http.jwt_authn", Path: "payload.sub"},
		}},
		"net\t:\tclient-ip /24 /64 hashed":   {Name: "net", Sources: []ParamSource{{Kind: FromClientIP, V4: 24, V6: 64, Hashed: true}}},
		"all : client-ip /0 /128":            {Name: "all", Sources: []ParamSource{{Kind: FromClientIP, V4: 0, V6: 128}}},
		"ip : descriptor remote_address":     {Name: "ip", Sources: []ParamSource{{Kind: FromDescriptor, Name: "remote_address"}}},
		"who : principal else sni":           {Name: "who", Sources: []ParamSource{{Kind: FromPrincipal}, {Kind: FromSNI}}},
		"X_a.b:c-D : gateway else header A#": {Name: "X_a.b:c-D", GatewayHeader: "x-koala-param-x-a-b-c-d", Sources: []ParamSource{{Kind: FromGateway}, {Kind: FromHeader, Name: "a#"}}},
		"l : query lower":                    {Name: "l", Sources: []ParamSource{{Kind: FromQuery, Name: "lower"}}},
		"m : query lower lower hashed":       {Name: "m", Sources: []ParamSource{{Kind: FromQuery, Name: "lower", Lower: true, Hashed: true}}},
		"n : client-ip /24 /64 lower":        {Name: "n", Sources: []ParamSource{{Kind: FromClientIP, V4: 24, V6: 64, Lower: true}}},
		"o : principal lower else sni":       {Name: "o", Sources: []ParamSource{{Kind: FromPrincipal, Lower: true}, {Kind: FromSNI}}},
		"h : query hashed hashed":            {Name: "h", Sources: []ParamSource{{Kind: FromQuery, Name: "hashed", Hashed: true}}},
	} {
		text := "[params]\n" + line + "\n[rules]\nrule : [count] [door=+] [time=1; count=1] [result=2; return=1]" + entries
		set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{})
		if set == nil {
			t.Errorf("%s: %v", line, findings)
			continue
		}
		if diff := cmp.Diff([]*ParamDecl{want}, set.Params, cmpopts.IgnoreFields(ParamDecl{}, "Pos"), cmpopts.IgnoreUnexported(ParamSource{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		var spelt []string
		for _, s := range want.Sources {
			spelt = append(spelt, s.String())
		}
		again, _ := Parse([]Source{{"rules.conf", []byte(strings.Replace(text, line, want.Name+" : "+strings.Join(spelt, " else "), 1))}}, Options{})
		if again == nil || !cmp.Equal(set.Params, again.Params, cmpopts.IgnoreFields(ParamDecl{}, "Pos"), cmpopts.IgnoreUnexported(ParamSource{})) {
			t.Errorf("%s is spelt %q, which is something else", line, spelt)
		}
	}
}

func TestResultEntries(t *testing.T) {
	text := "[rules]\nrule : [count] [door=+] [time=1; count=1] [result=2; return=1]" + entries +
		`7 : {"ERR_NO":-10, "need_vcode":1, "Vcode_len":4, "err_msg":"\u592a\n\"", "Http_status":429, "Grpc_status":8, "Headers":{"X-B":"2", "x-a":"1"}, "Body":"b", "Other":"{}"}`
	set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{})
	if set == nil {
		t.Fatal(findings)
	}
	want := &Result{
		Number: 7, ErrNo: -10, NeedVcode: 1, VcodeLen: 4, ErrMsg: "太\n\"", HTTPStatus: 429, GRPCStatus: 8,
		Headers: []Header{{"X-B", "2"}, {"x-a", "1"}}, Body: "b", Other: "{}", Pos: Position{"rules.conf", 7, 1},
	}
	if diff := cmp.Diff(want, set.Results[7]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for number, verdict := range map[int]Verdict{0: Allow, 1: Allow, 2: Deny, 7: Challenge} {
		if got := set.Results[number].Verdict(); got != verdict {
			t.Errorf("entry %d: %s; want %s", number, got, verdict)
		}
	}
}

func TestZoneOfFilesThenServiceThenUTC(t *testing.T) {
	rule := "[rules]\nrule : [count] [door=+] [time=1; count=1] [result=2; return=1]" + entries
	for _, c := range []struct{ file, service, zone, stated string }{
		{"", "", "UTC", ""},
		{"", "Europe/Berlin", "Europe/Berlin", ""},
		{"[settings]\ntimezone : America/Havana\n", "Europe/Berlin", "America/Havana", "America/Havana"},
		{"[settings]\ntimezone:UTC\n", "", "UTC", "UTC"},
	} {
		set, findings := Parse([]Source{{"rules.conf", []byte(c.file + rule)}}, Options{Timezone: c.service})
		if set == nil {
			t.Fatal(findings)
		}
		if set.Zone.String() != c.zone || set.Timezone != c.stated {
			t.Errorf("%+v: the zone is %s, stated as %q", c, set.Zone, set.Timezone)
		}
	}
	_, findings := Parse([]Source{{"rules.conf", []byte(rule)}}, Options{Timezone: "Mars/Olympus"})
	want := `error E046: the service's timezone "Mars/Olympus" is unknown; want an IANA name such as Asia/Shanghai, Europe/Berlin or UTC`
	if len(findings) != 1 || findings[0].Error() != want || findings[0].Text() != want {
		t.Errorf("got %v; want %s", findings, want)
	}
}

func TestEmptySetIsRejectedByDefault(t *testing.T) {
	text := "[rules]" + entries
	if set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{}); set != nil || findings[0].Code != "E040" {
		t.Errorf("got %v; want E040", findings)
	}
	if set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{AllowEmpty: true}); set == nil || len(findings) > 0 {
		t.Errorf("got %v; want a set", findings)
	}
	if set, findings := Parse(nil, Options{AllowEmpty: true}); set != nil || !findings.HasErrors() {
		t.Errorf("no file at all: got %v; want errors", findings)
	}
}

func TestSectionsOfFilesAreJoined(t *testing.T) {
	sources := []Source{
		{"a.conf", []byte("[params]\nuid : gateway\n[rules]\nrule : [count] [uid=+] [time=1; count=1] [result=7; return=1]\n[end]")},
		{"b.conf", []byte("[params]\nact : gateway\n[rules]\nrule : [count] [act=+] [time=1; count=1] [result=2; return=2]\n[result]\n7 : {\"Err_no\":1}\n")},
		{"c.conf", []byte("[settings]\ntimezone : UTC" + entries)},
	}
	set, findings := Parse(sources, Options{})
	if set == nil || len(findings) > 0 {
		t.Fatal(findings)
	}
	if len(set.Rules) != 2 || len(set.Params) != 2 || len(set.Results) != 4 || set.Timezone != "UTC" || set.Rules[0].Result.Number != 7 {
		t.Errorf("the files are not joined: %+v", set)
	}
	sources[2].Text = []byte("[params]\nuid : gateway\n[rules]\nrule : [count] [act=+] [time=1; count=1] [result=2; return=1]\n[result]\n7 : {}\n0 : {}\n1 : {}\n2 : {}\n")
	_, findings = Parse(sources, Options{})
	var codes []string
	for _, f := range findings {
		codes = append(codes, f.Position.String()+" "+f.Code)
	}
	want := []string{"c.conf:2:1 E061", "c.conf:4:60 E037", "c.conf:6:1 E052"}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
