package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/middleware"
)

// Rules are read from a file, which is watched, and counters are kept in
// process; with Redis in the Options they are shared with other instances.
func Example() {
	gate, err := koalagate.Open(koalagate.Options{Rules: []string{"testdata/comments.conf"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()
	limit := middleware.New(middleware.Options{
		Engine: gate.Engine(),
		// What the program itself knows of a request needs no header.
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
