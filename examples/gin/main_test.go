package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Each spelling that reaches the handler must count as a comment.
func TestEverySpellingOfTheRouteIsLimited(t *testing.T) {
	for _, target := range []string{"/api/comments", "/api%2Fcomments", "/api%2fcomments", "/%61pi%2Fcomments", "/api%5Ccomments", "//api/comments", "/x/../api/comments", "/api/%2e/comments", "/x%2F..%2Fapi/comments"} {
		gate, err := openGate()
		if err != nil {
			t.Fatal(err)
		}
		router := newRouter(gate)
		served := 0
		for range 6 {
			r := httptest.NewRequest(http.MethodPost, target, http.NoBody)
			w := httptest.NewRecorder()
			router.ServeHTTP(w, r)
			if w.Code == http.StatusOK {
				served++
			}
		}
		if served > 4 {
			t.Errorf("POST %s is served %d times; want 4 at most", target, served)
		}
		gate.Close()
	}
}
