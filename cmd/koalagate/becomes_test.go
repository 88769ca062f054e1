package main

import (
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// becomes runs a program until its output matches: `becomes PATTERN PROGRAM ARGS…`.
func becomes(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[0])
	for late := time.Now().Add(patience); ; {
		_ = ts.Exec(args[1], args[2:]...) // until the program succeeds, its output does not match
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(late) {
			ts.Fatalf("%q did not appear within %s:\n%s%s", args[0], patience, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
	}
}
