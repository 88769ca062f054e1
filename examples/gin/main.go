// An application on gin whose routes are limited in its own process, by the
// rules of a file that is read again when it changes.
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
		Redis: os.Getenv("REDIS_URL"), // "" counts in this process alone
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

// limited puts a middleware of net/http before gin's handlers. A request that
// it answers itself goes no further.
func limited(limit func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		admitted := false
		limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { admitted = true })).ServeHTTP(c.Writer, c.Request)
		if !admitted {
			c.Abort()
		}
	}
}
