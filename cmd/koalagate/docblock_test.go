package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// incidentsPage is the page whose commands the story incidents-of-the-page runs.
const incidentsPage = "../../docs/incidents.md"

// block runs block N, from 1, of docs/incidents.md at the instance of the story: `block N`. It fails
// if a command fails or the API answers with a problem. `block end N` fails unless the page has N.
func block(pages []byte) func(*testscript.TestScript, bool, []string) {
	blocks := regexp.MustCompile("(?ms)^```sh untested: another test runs it[^\n]*\n(.*?)^```$").FindAllStringSubmatch(string(pages), -1)
	return func(ts *testscript.TestScript, _ bool, args []string) {
		if args[0] == "end" {
			if args[1] != strconv.Itoa(len(blocks)) {
				ts.Fatalf("docs/incidents.md has %d blocks; the story runs %s", len(blocks), args[1])
			}
			return
		}
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		text := strings.ReplaceAll(blocks[n-1][1], "http://127.0.0.1:9982", "http://"+ts.Getenv("ADMIN"))
		ts.Check(ts.Exec("sh", "-ec", text))
		if out := ts.ReadFile("stdout"); strings.Contains(out, `"type": "about:blank"`) || out == "" {
			ts.Fatalf("block %d: %s\n%s", n, text, out)
		}
	}
}

// readIncidents returns the text of the page.
func readIncidents() ([]byte, error) { return os.ReadFile(incidentsPage) }
