package mapping

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/rules"
)

const fuzzParams = `
uid  : header X-User-Id else cookie uid else query uid else client-ip
key  : header X-Api-Key hashed
net  : client-ip /24 /64
act  : gateway
tier : descriptor tier else principal
`

const fuzzRoutes = `
GET /a/{x}/b      : kind=middle
*   /files/{r...} : kind=rest
*   /             : kind=any
`

var fuzzDoors = doorname.All()

// FuzzParams checks for arbitrary requests at every door: a request is refused, or it
// has a bounded number of parameters, none blank or repeated, a clean path and a
// canonical address; and the result is the same the next time.
func FuzzParams(f *testing.F) {
	for door := range fuzzDoors {
		f.Add(uint8(door), "GET", "/a/1/b?uid=x&_y=z", "Shop.Example:80", "198.51.100.7", "x-user-id:ann\ncookie:uid=a", false)
		f.Add(uint8(door), "POST", "/v1/ext-authz/%2e%2e//files/%2F", "[::1]:1", "[::1]:2",
			"x-original-method:GET\nx-original-uri:/a/%00\nx-real-ip:::1\nx-forwarded-method:GET\n"+
				"x-forwarded-uri:/files/a\nx-forwarded-for:1,2.3.4.5\nx-koala-param-act:{x}\nact:y", true)
	}
	set := with(f, fuzzParams, fuzzRoutes)
	f.Fuzz(func(t *testing.T, door uint8, method, path, host, peer, lines string, keep bool) {
		headers, entries := mapHeaders{}, []Entry(nil)
		for line := range strings.SplitSeq(lines, "\n") {
			name, value, _ := strings.Cut(line, ":")
			headers[strings.ToLower(name)] = value
			entries = append(entries, Entry{name, value})
		}
		r := &Request{
			Door: fuzzDoors[int(door)%len(fuzzDoors)], Method: method, Path: path, Host: host,
			Scheme: "http", Peer: peer, Headers: headers,
		}
		switch r.Door {
		case doorname.ExtAuthz:
			r.Context, r.Principal = headers, host
		case doorname.RateLimit:
			r.Domain, r.Entries = host, entries
		case doorname.Koala:
			r.Args = entries
		}
		o := &Options{KeepMalformed: keep, TrustedHops: int(door) / 100}
		var p rules.Params
		if err := Params(set, r, o, &p); err != nil {
			checkRefusal(t, r, o, err)
			return
		}
		checkParams(t, r, &p)
		first := asMap(&p)
		if err := Params(set, r, o, &p); err != nil {
			t.Fatalf("the second time: %v", err)
		}
		if diff := cmp.Diff(first, asMap(&p)); diff != "" {
			t.Fatalf("the second time differs:\n%s", diff)
		}
	})
}

func checkRefusal(t *testing.T, r *Request, o *Options, err error) {
	t.Helper()
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("the error is no refusal: %v", err)
	}
	switch refusal.Status {
	case http.StatusForbidden:
		if len(refusal.Missing) == 0 {
			t.Fatalf("refused with 403, and nothing is missing: %v", err)
		}
	case http.StatusBadRequest:
		if o.KeepMalformed {
			t.Fatalf("refused though malformed paths are kept: %v", err)
		}
	default:
		t.Fatalf("refused with %d", refusal.Status)
	}
	if r.Door == doorname.Koala || r.Door == doorname.RateLimit {
		t.Fatalf("%s has no original request, and yet: %v", r.Door, err)
	}
}

func checkParams(t *testing.T, r *Request, p *rules.Params) {
	t.Helper()
	if p.Len() > DefaultMaxParams {
		t.Fatalf("%d parameters", p.Len())
	}
	seen := make(map[string]bool)
	for _, parameter := range p.List() {
		name, value := parameter.Name, parameter.Value
		if seen[name] || name == "" || isBlank(value) || len(value) > DefaultMaxValue+32 {
			t.Fatalf("the parameter %q is %q", name, value)
		}
		seen[name] = true
	}
	if r.Door == doorname.RateLimit || r.Door == doorname.Koala || r.Door == doorname.ExtAuthz {
		return // the call itself may name any parameter
	}
	if r.Door == doorname.AuthRequest || r.Door == doorname.ForwardAuth || r.Door == doorname.Accel {
		if strings.ContainsAny(r.Path, "?") {
			return
		}
	}
	if ip, ok := p.Get("ip"); ok {
		if address, err := netip.ParseAddr(ip); err != nil || address.String() != ip || address.Is4In6() {
			t.Fatalf("ip is %q, which is not canonical", ip)
		}
	}
	path, _ := p.Get("path")
	if len(path) > DefaultMaxValue {
		return // cut anywhere
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			t.Fatalf("path is %q", path)
		}
	}
}
