package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"koalagate": main})
}

// TestStories runs the command as users do, with one story per file. story_test.go
// adds commands to testscript.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[serverKey{}] = new(server)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start":   start,
			"logged":  logged,
			"get":     get,
			"post":    post,
			"until":   until,
			"appears": appears,
			"put":     put,
			"hold":    hold,
			"signal":  signalServer,
			"deafen":  deafen,
			"later":   later,
			"ended":   ended,
		},
		UpdateScripts: os.Getenv("UPDATE") != "",
	})
}
