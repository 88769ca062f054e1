package main

import (
	"io"
	"net/http"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// takes requests a URL a number of times, with the number of the request appended, or robot
// for one in every few: `takes NUMBER EVERY URL`.
func takes(ts *testscript.TestScript, _ bool, args []string) {
	number, err := strconv.Atoi(args[0])
	ts.Check(err)
	every, err := strconv.Atoi(args[1])
	ts.Check(err)
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	for i := range number {
		who := strconv.Itoa(i)
		if i%every == 0 {
			who = "robot"
		}
		reply, err := client.Get(args[2] + who)
		ts.Check(err)
		_, err = io.Copy(io.Discard, reply.Body) // keeps the connection
		ts.Check(err)
		ts.Check(reply.Body.Close())
	}
}
