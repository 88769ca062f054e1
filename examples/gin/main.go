// Command gin is an application that limits its gin routes in its own process, by
// the rules in a file that is reloaded when it changes.
//
//	go run . && curl -i 127.0.0.1:8000/api/comments -d hello
package main

import (
	"bufio"
	"log"
	"net"
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
	gate, err := openGate()
	if err != nil {
		return err
	}
	defer gate.Close()
	return newRouter(gate).Run("127.0.0.1:8000")
}

func openGate() (*koalagate.Gate, error) {
	return koalagate.Open(koalagate.Options{
		Rules: []string{"rules.conf"},
		Redis: os.Getenv("REDIS_URL"), // "" counts in this process only
	})
}

func newRouter(gate *koalagate.Gate) *gin.Engine {
	router := gin.New()
	router.Use(limited(middleware.New(middleware.Options{
		Engine:         gate.Engine(),
		EncodedSlashes: middleware.SplitEncodedSlashes, // as gin reads /api%2Fcomments
	})))
	router.POST("/api/comments", func(c *gin.Context) { c.String(http.StatusOK, "thank you\n") })
	return router
}

// limited runs gin's handlers within a net/http middleware, which learns how they end. If
// the middleware answers a request itself, gin's handlers do not run.
func limited(limit func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		admitted := false
		limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			admitted = true
			own := &writer{ResponseWriter: c.Writer, outer: w}
			c.Request, c.Writer = r, own
			c.Next()
			if !own.hijacked {
				w.WriteHeader(own.Status()) // gin sends it later, or has sent it
			}
		})).ServeHTTP(c.Writer, c.Request)
		if !admitted {
			c.Abort()
		}
	}
}

// writer is gin's writer, whose connections the handlers take over from the net/http
// middleware.
type writer struct {
	gin.ResponseWriter
	outer    http.ResponseWriter
	hijacked bool
}

// Hijack takes over the connection.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(w.outer).Hijack()
	w.hijacked = err == nil
	return conn, buffer, err
}
