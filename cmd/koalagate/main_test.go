package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"koalagate": main})
}

// TestStories runs the command as users do, with one story per file. story_test.go
// adds commands to testscript.
func TestStories(t *testing.T) {
	// Stories that use Redis share one, each with a prefix of its own.
	redis := storetest.StartServer(t).URL()
	incidents, err := readIncidents()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[serverKey{}] = new(server)
			env.Setenv("REDIS", redis)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start":   start,
			"logged":  logged,
			"get":     get,
			"post":    post,
			"until":   until,
			"takes":   takes,
			"listof":  listOf,
			"appears": appears,
			"becomes": becomes,
			"block":   block(incidents),
			"put":     put,
			"hold":    hold,
			"keys":    keys,
			"signal":  signalServer,
			"deafen":  deafen,
			"later":   later,
			"ended":   ended,

			"stopwatch": stopwatch,
		},
		UpdateScripts: os.Getenv("UPDATE") != "",
	})
}
