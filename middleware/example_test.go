package middleware_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/middleware"
)

// The rules are in a file, which is watched. The counters are in process; with Redis
// in the Options, instances share them.
func Example() {
	gate, err := koalagate.Open(koalagate.Options{Rules: []string{"testdata/comments.conf"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()
	limit := middleware.New(middleware.Options{
		Engine: gate.Engine(),
		// The program takes parameters from wherever it likes.
		Params: func(r *http.Request) map[string]string {
			return map[string]string{"uid": r.Header.Get("X-Session")}
		},
	})

	mux := http.NewServeMux()
	mux.HandleFunc("POST /comments", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "thank you") })
	handler := limit(mux)

	for range 3 {
		request := httptest.NewRequest("POST", "/comments", nil)
		request.Header.Set("X-Session", "ann")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		fmt.Println(answer.Code, answer.Header().Get("RateLimit-Remaining"), answer.Body)
	}
	// Output:
	// 200 1 thank you
	// 200 0 thank you
	// 429 0 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"violated-policies":["r201"]}
}

// A program can respond to refused requests in its own words.
func Example_refuse() {
	gate, err := koalagate.Open(koalagate.Options{Rules: []string{"testdata/comments.conf"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()
	limit := middleware.New(middleware.Options{
		Engine: gate.Engine(),
		Params: func(*http.Request) map[string]string { return map[string]string{"uid": "ann"} },
		Refuse: func(w http.ResponseWriter, _ *http.Request, d *engine.Decision) {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprintf(w, "try again in %.0f s", math.Ceil(d.Answers[d.Refuser].Retry.Seconds()))
		},
	})
	handler := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "thank you") }))

	for range 3 {
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, httptest.NewRequest("POST", "/comments", nil))
		fmt.Println(response.Code, response.Body)
	}
	// Output:
	// 200 thank you
	// 200 thank you
	// 429 try again in 60 s
}
