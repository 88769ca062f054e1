package main

import (
	"slices"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/e2e"
)

// Redis names the commands that it carries out, and the lines of a script that it runs.
func TestTrailOfAScript(t *testing.T) {
	stage, err := e2e.NewStage(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	server, err := stage.Redis()
	if err != nil {
		t.Fatal(err)
	}
	o, closed, err := observe(t.Context(), server.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer closed()
	const text = "local n = tonumber(ARGV[1])\nif n > 1 then\n  n = 1\nend\nredis.call('SET', KEYS[1], n)\nreturn n\n"
	script := goredis.NewScript(text)
	for range 2 { // the first sends the text
		if err := script.Run(t.Context(), o.client, []string{"key\n\"\xff"}, "2").Err(); err != nil {
			t.Fatal(err)
		}
	}
	commands, err := o.commands(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(commands, func(c []string) bool { return c[0] == "eval" && c[1] == text }) {
		t.Errorf("commands %q, want one with the text of the script", commands)
	}
	called := calls(commands)
	if want := []string{"evalsha", script.Hash(), "1", "key\n\"\xff", "2"}; len(called) == 0 || !slices.Equal(called[len(called)-1], want) {
		t.Fatalf("calls %q, want %q", called, want)
	}
	for argument, want := range map[string][]int{"2": {1, 2, 3, 5, 6}, "1": {1, 2, 5, 6}} {
		lines, err := o.step(t.Context(), text, []string{"1", "key", argument})
		if err != nil || !slices.Equal(lines, want) {
			t.Errorf("argument %s: lines %v, %v; want %v", argument, lines, err, want)
		}
	}
}
