// Command gin is an application that limits its gin routes in its own process, by
// the rules in a file that is reloaded when it changes.
//
//	go run . && curl -i 127.0.0.1:8000/api/comments -d hello
package main

import (
	"log"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"

	"github.com/koalagate/koalagate"
	"github.com/koalagate/koalagate/middleware"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	gate, err := koalagate.Open(koalagate.Options{
		Rules: []string{"rules.conf"},
		Redis: os.Getenv("REDIS_URL"), // "" counts in this process only
	})
	if err != nil {
		return err
	}
	defer gate.Close()

	router := gin.New()
	router.Use(limited(middleware.New(middleware.Options{Engine: gate.Engine()})))
	router.POST("/api/comments", func(c *gin.Context) { c.String(http.StatusOK, "thank you\n") })
	return router.Run("127.0.0.1:8000")
}

// limited runs a net/http middleware before gin's handlers. If the middleware
// answers a request itself, gin's handlers do not run.
func limited(limit func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		admitted := false
		limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { admitted = true })).ServeHTTP(c.Writer, c.Request)
		if !admitted {
			c.Abort()
		}
	}
}
