package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// keysHelp lists what drill carries out.
const keysHelp = `  s  send 30 comments as carol, through both gateways
  1  drill: kill Redis; again: start it
  2  drill: push a rule file with a mistake; again: take it back
  3  drill: replay the requests so far with a stricter rule
  q  stop everything, like ^C`

// drill carries out what a key stands for.
func (s *scene) drill(key string) {
	var err error
	switch key {
	case "s":
		s.send()
	case "1":
		err = s.toggleRedis()
	case "2":
		err = s.toggleMistake()
	case "3":
		err = s.replay()
	default:
		fmt.Println(keysHelp)
	}
	if err != nil {
		fmt.Println("the drill failed:", err)
	}
}

// send sends comments, and prints how many got which status.
func (s *scene) send() {
	statuses := make(map[string]int)
	client := http.Client{Timeout: 20 * time.Second}
	for i := range 30 {
		gateway := []string{s.envoy.URL, s.nginx.URL}[i%2]
		r, err := http.NewRequest(http.MethodPost, gateway+"/api/comments", strings.NewReader("hello"))
		if err != nil {
			fmt.Println(err)
			return
		}
		r.Header.Set("X-User-Id", "carol")
		resp, err := client.Do(r)
		if err != nil {
			statuses["without an answer"]++
			continue
		}
		resp.Body.Close()
		status := resp.Status
		if resp.Header.Get("X-Koala-Degraded") != "" {
			status += ", decided without Redis"
		}
		statuses[status]++
	}
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		fmt.Printf("  %d × %s\n", statuses[status], status)
	}
}

// toggleRedis kills Redis, or starts it again.
func (s *scene) toggleRedis() error {
	if s.isRedisDown {
		redis, err := s.stage.RestartRedis(s.redis)
		if err != nil {
			return err
		}
		s.redis, s.isRedisDown = redis, false
		fmt.Println("Redis runs again, and is in use within a second. It has lost its counters: it has no persistence.")
		return nil
	}
	if err := s.redis.Kill(); err != nil {
		return err
	}
	s.isRedisDown = true
	fmt.Println("Redis is killed. Each instance goes on with the limits on its own, from the counts that it knows, and marks\n" +
		"its answers with X-Koala-Degraded: 1. Send comments (s), and start Redis again (1).")
	return nil
}

// mistake is a rule that no instance accepts.
const mistake = "rule : [cuont] [act=comment; uid=+] [time=90; count=1] [result=2; return=999]\n"

// toggleMistake adds a mistake to the rule file, or takes it back.
func (s *scene) toggleMistake() error {
	text, err := os.ReadFile(s.rules)
	if err != nil {
		return err
	}
	if good := strings.ReplaceAll(string(text), mistake, ""); good != string(text) {
		fmt.Println("The mistake is gone from the rule file.")
		return e2e.ReplaceFile(s.rules, good)
	}
	bad := strings.Replace(string(text), "[result]\n", mistake+"[result]\n", 1)
	if err := e2e.ReplaceFile(s.rules, bad); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if r, err := s.instances[0].Readyz(); err == nil && r.LastError != "" {
			fmt.Printf("The rule file has a mistake. The instances report it at /readyz, and keep generation %d of the rules:\n  %s\n", r.Generation, r.LastError)
			return nil
		}
	}
	return fmt.Errorf("%s does not report the mistake", s.instances[0].Admin)
}

// replay decides the requests so far by a stricter rule, and prints who would be refused.
func (s *scene) replay() error {
	text, err := os.ReadFile(s.rules)
	if err != nil {
		return err
	}
	strict := s.rules[:len(s.rules)-len(".conf")] + "-strict.conf"
	good := strings.ReplaceAll(string(text), mistake, "")
	if err := os.WriteFile(strict, []byte(strings.Replace(good, "[time=90; count=4]", "[time=90; count=2]", 1)), 0o600); err != nil {
		return err
	}
	time.Sleep(1200 * time.Millisecond) // instances write their decision logs once a second
	arguments := []string{"diff", s.rules, strict, s.decisions(0), s.decisions(1)}
	fmt.Println("koalagate", strings.Join(arguments, " "))
	out, err := exec.Command(s.program(), arguments...).CombinedOutput()
	fmt.Print(string(out))
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // the rules differ
	}
	return err
}
