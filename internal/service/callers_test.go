package service

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// caller is a column of the table in SECURITY.md of who can do what: a service as it is
// configured for the caller, and what distinguishes the caller's requests.
type caller struct {
	service *Service
	host    string // "" for the address
	header  http.Header
}

// callers returns the columns by their heads.
func callers(t *testing.T) map[string]caller {
	t.Helper()
	open := func(flags map[string]any) *Service {
		s, _ := open(t, flags)
		run(t, s)
		return s
	}
	const reading, changing = "a-token-for-reading-1234", "a-token-for-changes-1234"
	local := open(map[string]any{"state_dir": t.TempDir()})
	tokens := open(map[string]any{"admin_token": changing, "admin_read_token": reading})
	exposed := open(map[string]any{"grpc_addr": "0.0.0.0:0", "http_addr": "0.0.0.0:0", "admin_addr": "0.0.0.0:0"})
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	return map[string]caller{
		"a web page": {local, "evil.example", http.Header{
			"Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"same-origin"}, "Accept-Encoding": {"gzip, deflate"},
		}},
		"a user of the machine": {local, "", nil},
		"the token for reading": {tokens, "", bearer(reading)},
		"the token for changes": {tokens, "", bearer(changing)},
		"a gateway's machine":   {exposed, "", nil},
	}
}

// deed is a request that the table describes.
type deed struct {
	admin, method, path, kind, body string
	header                          http.Header
}

// deeds are the rows of the table.
var deeds = map[string][]deed{
	"read whether the instance is healthy and ready": {{admin: "admin", method: "GET", path: "/healthz"}, {admin: "admin", method: "GET", path: "/readyz"}},
	"read metrics, profiles and modes": {
		{admin: "admin", method: "GET", path: "/metrics"}, {admin: "admin", method: "GET", path: "/debug/pprof/cmdline"}, {admin: "admin", method: "GET", path: "/modes"},
	},
	"read rules, counters and exceptions, and ask what rules decide": {
		{admin: "admin", method: "GET", path: "/api/v1/rules"},
		{admin: "admin", method: "GET", path: "/api/v1/exceptions"},
		{admin: "admin", method: "POST", path: "/api/v1/explain", kind: "application/json", body: `{"params":{"act":"a","uid":"ann"}}`},
	},
	"change the modes of doors, exceptions and counters": {
		{admin: "admin", method: "POST", path: "/modes", kind: "application/json", body: `{"koala":"observe"}`},
		{admin: "admin", method: "POST", path: "/api/v1/modes", kind: "application/json", body: `{"koala":"enforce"}`},
		{admin: "admin", method: "POST", path: "/api/v1/reset", kind: "application/json", body: `{"rule":201,"identity":{"uid":"ann"}}`},
		{
			admin: "admin", method: "POST", path: "/api/v1/exceptions", kind: "application/json",
			body: `{"for_ms":60000,"exceptions":[{"rule":201,"identity":{"uid":"ann"},"what":"allow"}]}`,
		},
	},
	"ask at the door of a gateway, and use up limits": {{
		method: "GET", path: "/v1/forward-auth",
		header: http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/"}, "X-Forwarded-For": {"203.0.113.7"}},
	}},
	"read counters by Koala's API": {{method: "GET", path: "/rule/browse?act=a&uid=ann"}},
	"count, and give back, by Koala's API": {
		{method: "GET", path: "/rule/take?act=a&uid=ann"}, {method: "GET", path: "/rule/refund?act=a&uid=ann"},
	},
}

// do sends the request of a deed, and reports whether it was carried out.
func (c caller) do(t *testing.T, d deed) (status int, body string) {
	t.Helper()
	address := c.service.Addresses().HTTP
	if d.admin != "" {
		address = c.service.Addresses().Admin
	}
	_, port, _ := strings.Cut(address[strings.LastIndex(address, ":"):], ":")
	request, err := http.NewRequestWithContext(t.Context(), d.method, "http://127.0.0.1:"+port+d.path, strings.NewReader(d.body))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []http.Header{c.header, d.header} {
		for name, values := range header {
			request.Header[name] = values
		}
	}
	if d.kind != "" {
		request.Header.Set("Content-Type", d.kind)
	}
	if request.Host = "127.0.0.1:" + port; c.host != "" {
		request.Host = c.host
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// Each cell of the table in SECURITY.md of who can do what is true.
func TestWhoCanDoWhat(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| who can | ")
	table, _, _ = strings.Cut("who can | "+table, "\n\n")
	cells := func(row string) (list []string) {
		for cell := range strings.SplitSeq(strings.Trim(row, "| \n"), "|") {
			list = append(list, strings.TrimSpace(cell))
		}
		return list
	}
	lines := strings.Split(table, "\n")
	if len(lines) != len(deeds)+2 {
		t.Fatalf("the table has %d lines; want a head and %d rows", len(lines), len(deeds))
	}
	heads, all := cells(lines[0]), callers(t)
	for _, line := range lines[2:] {
		row := cells(line)
		if len(row) != len(heads) || deeds[row[0]] == nil {
			t.Errorf("%q is no row of %d cells that the test knows", line, len(heads))
			continue
		}
		for i, head := range heads[1:] {
			c, known := all[head]
			if !known {
				t.Fatalf("the column %q is unknown", head)
			}
			for _, d := range deeds[row[0]] {
				status, body := c.do(t, d)
				if can := status < 300; can != (row[i+1] == "yes") {
					t.Errorf("%s, %s: %s %s: %d %.200s; SECURITY.md says %q", head, row[0], d.method, d.path, status, body, row[i+1])
				}
			}
		}
	}
}

// A page of another site reads and changes nothing at the admin address by the address itself: by
// links, images and scripts, whose requests browsers mark.
func TestPagesOfOtherSitesReachNothing(t *testing.T) {
	s, _ := open(t, map[string]any{"state_dir": t.TempDir()})
	run(t, s)
	page := caller{s, "", http.Header{"Sec-Fetch-Site": {"cross-site"}}}
	for row, list := range deeds {
		for _, d := range list {
			want := http.StatusForbidden
			switch {
			case d.admin == "":
				continue
			case d.path == "/healthz" || d.path == "/readyz":
				want = http.StatusOK
			}
			if status, body := page.do(t, d); status != want {
				t.Errorf("%s: %s %s: %d %.200s; want %d", row, d.method, d.path, status, body, want)
			}
		}
	}
}
