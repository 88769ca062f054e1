package pace

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A page waits while another one has the place, for a moment, and gets 429. What has the place ends
// in time, and frees it.
func TestOnePageAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, line := make(chan struct{}), NewLine()
		pages := line.Pages(time.Minute, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
		}))
		ask := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			return w
		}
		first, begin := make(chan int), time.Now()
		go func() { first <- ask().Code }()
		<-began
		second := ask()
		if second.Code != http.StatusTooManyRequests || second.Header().Get("Retry-After") != RetryAfter || time.Since(begin) != patience {
			t.Errorf("the second page: %d %v after %v; want 429 with Retry-After after %v", second.Code, second.Header(), time.Since(begin), patience)
		}
		if code := <-first; code != http.StatusOK || time.Since(begin) < time.Minute {
			t.Errorf("the first page: %d after %v; want 200 after a minute", code, time.Since(begin))
		}
		began = make(chan struct{})
		go func() { first <- ask().Code }()
		<-began
		if code := <-first; code != http.StatusOK {
			t.Errorf("the third page: %d; want 200", code)
		}
	})
}
