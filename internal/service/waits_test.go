package service

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Checks that wait keep half of a peer's connections free. Otherwise the listener would close
// a waiting check for each new one, and gateways let requests through whose checks fail.
func TestWaitingChecksLeaveConnections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.conf")
	if err := os.WriteFile(file, []byte(`
[rules]
rule : [token] [uid=+] [time=3600; count=60; burst=1; wait=60] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, text := open(t, map[string]any{"rules": []string{file}, "http_max_connections_per_peer": 6})
	run(t, s)
	check := func(uid string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addresses().HTTP+"/v1/auth-request?_wait=60&uid="+uid, http.NoBody)
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("X-Original-Method", "GET")
		req.Header.Set("X-Original-URI", "/")
		req.Header.Set("X-Real-IP", "192.0.2.1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0 // the test has ended, or the listener has closed the connection
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, uid := range []string{"ann", "bob", "cid", "dan"} {
		if status := check(uid); status != http.StatusOK {
			t.Fatalf("the first check of %s: %d; want 200", uid, status)
		}
	}
	for i, uid := range []string{"ann", "bob", "cid"} { // for a minute each
		go check(uid)
		for wait := time.Now().Add(10 * time.Second); s.app.Engine().Waiting() != i+1; time.Sleep(time.Millisecond) {
			if time.Now().After(wait) {
				t.Fatalf("%d checks wait; want %d", s.app.Engine().Waiting(), i+1)
			}
		}
	}
	for range 10 {
		if status := check("dan"); status != http.StatusForbidden {
			t.Fatalf("a check beyond half of the connections: %d; want 403", status)
		}
	}
	if n := s.app.Engine().Waiting(); n != 3 {
		t.Errorf("%d checks wait; want 3", n)
	}
	wantBound(t, s, text, boundWaiting, "10")
}
