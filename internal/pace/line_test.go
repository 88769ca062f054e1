package pace

import (
	"context"
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

// After a page that takes long, the next one waits; after others it does not.
func TestLongPagesAreFollowedByARest(t *testing.T) {
	for _, c := range []struct{ took, rest time.Duration }{
		{turn, 0},
		{turn + time.Millisecond, restTimes * (turn + time.Millisecond)},
		{time.Minute, maxRest},
	} {
		synctest.Test(t, func(t *testing.T) {
			var begun []time.Time
			pages := NewLine().Pages(time.Hour, http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {
				begun = append(begun, time.Now())
				time.Sleep(c.took - pause) // at its end it pauses
			}))
			for range 2 {
				pages.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
			}
			if rest := begun[1].Sub(begun[0]) - c.took; rest != c.rest {
				t.Errorf("after a page of %v: a rest of %v; want %v", c.took, rest, c.rest)
			}
		})
	}
}

// Who does not wait for the end of a rest leaves the place to others.
func TestCallersWhoLeaveDuringARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLine()
		l.rested = time.Now().Add(maxRest)
		ctx, cancel := context.WithTimeout(t.Context(), maxRest/2)
		defer cancel()
		if l.page(ctx) != nil {
			t.Error("a page during a rest")
		}
		free := l.page(t.Context())
		if free == nil || time.Now() != l.rested {
			t.Fatal("no page after the rest")
		}
		free()
	})
}
