package koala

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

const receiptFile = `
[rules]
rule : [hold] [uid=+] [time=60; count=1] [result=2; return=1]
rule : [count] [uid=+] [time=60; count=100; settle=60] [result=2; return=2]
rule : [count] [response.status=401; uid=+] [time=60; count=9] [result=2; return=3]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// receiptServer returns a function that sends a GET and returns status and body.
func receiptServer(t *testing.T, access Access) func(target string) (int, string) {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(receiptFile)}}, rules.Options{Timezone: "UTC"})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	s := New(Options{Engine: engine.New(set), Access: access, Hosts: []string{"example.com"}})
	return func(target string) (int, string) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		return w.Code, w.Body.String()
	}
}

// receiptOf returns the receipt of a reply, "" for none.
func receiptOf(t *testing.T, body string) string {
	t.Helper()
	var entry struct{ Receipt string }
	if err := json.Unmarshal([]byte(body), &entry); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return entry.Receipt
}

func TestSettleAndRenew(t *testing.T) {
	get := receiptServer(t, Full)
	_, body := get("/rule/take?uid=7")
	receipt := receiptOf(t, body)
	if !engine.ValidReceipt(receipt) {
		t.Fatalf("the reply to a take has the receipt %q: %s", receipt, body)
	}
	if _, body := get("/rule/browse?uid=7"); receiptOf(t, body) != "" {
		t.Errorf("the reply to a browse has a receipt: %s", body)
	}
	if _, body := get("/rule/take?uid=7"); receiptOf(t, body) != "" {
		t.Errorf("the reply to a refused take has a receipt: %s", body)
	}
	_, body = get("/rule/browse_complete?uid=8&_writeThrough=yes")
	if list := []struct{ Receipt string }{}; json.Unmarshal([]byte(body), &list) != nil || len(list) != 1 || !engine.ValidReceipt(list[0].Receipt) {
		t.Errorf("a complete take has no receipt: %s", body)
	}
	const ok, unknown = `{"err_no":0, "err_msg":"OK"}`, `{"err_no":-3, "err_msg":"unknown receipt: settled before, or expired"}`
	of := "?_receipt=" + url.QueryEscape(receipt)
	for _, c := range []struct {
		target string
		status int
		body   string
	}{
		{"/rule/renew" + of, 200, ok},
		{"/rule/settle" + of + "&_hits=junk", 400, ""},
		{"/rule/settle" + of + "&_hits=-1", 400, ""},
		{"/rule/settle" + of + "&_hits=1.5", 400, ""},
		{"/rule/settle" + of + "&_hits=1000000000000001", 400, ""},
		{"/rule/settle", 400, ""},
		{"/rule/settle?_receipt=forged", 400, ""},
		{"/rule/renew?_receipt=" + receipt[1:], 400, ""},
		{"/rule/settle" + of + "x&_hits=1", 200, unknown},
		{"/rule/settle" + of + "&_hits=3e%2B01&response.status=401", 200, ok},
		{"/rule/settle" + of + "&_hits=40", 200, unknown},
		{"/rule/renew" + of, 200, unknown},
		{"/rule/value?uid=7&rule_no=1", 200, `{"err_no":0, "err_msg":"", "cache_val":0}`},
		{"/rule/value?uid=7&rule_no=2", 200, `{"err_no":0, "err_msg":"", "cache_val":30}`},
		{"/rule/value?uid=7&rule_no=3", 200, `{"err_no":0, "err_msg":"", "cache_val":1}`},
	} {
		status, body := get(c.target)
		if status != c.status || c.body != "" && body != c.body {
			t.Errorf("%s: %d %s, want %d %s", c.target, status, body, c.status, c.body)
		}
	}
}

// TestSettlementsWrite checks that readers of the API can settle nothing.
func TestSettlementsWrite(t *testing.T) {
	get := receiptServer(t, Read)
	for _, path := range []string{"/rule/settle", "/rule/renew"} {
		if status, body := get(path + "?_receipt=" + "p0123456789012345678901"); status != 403 {
			t.Errorf("%s: %d %s, want 403", path, status, body)
		}
	}
}
