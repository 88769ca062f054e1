// Command soak runs two instances of koalagate behind Envoy and nginx for a long time,
// under load and in trouble: reloads, restarts of Redis and of gateways, hostile
// clients, and steps of Redis's clock. A ledger checks all along that no user is
// admitted more often than the limit. At the end soak writes a report, and exits with 1
// if a limit was exceeded, a call got no answer that it should have got, or the memory,
// goroutines or descriptors of an instance grew.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

func main() {
	minutes := flag.Float64("minutes", 60, "the duration")
	report := flag.String("o", "docs/reports/soak.md", "write the report to this `FILE`")
	binary := flag.String("binary", "bin/koalagate", "the `FILE` of the service, below the module")
	commit := flag.String("commit", "", "the commit, for the report")
	flag.Parse()
	ok, err := run(time.Duration(*minutes*float64(time.Minute)), *binary, *commit, *report)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run runs the soak for a time, and reports whether everything held.
func run(length time.Duration, binary, commit, report string) (ok bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "koalagate-soak")
	if err != nil {
		return false, err
	}
	stage, err := e2e.NewStage(dir)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, stage.Close(), os.RemoveAll(dir)) }()
	stage.TrustUsers(true)
	stage.BePatient(true)

	s, err := start(stage, dir, stage.Path(binary))
	if err != nil {
		return false, err
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	s.play(ctx, length)
	text, ok := s.report(commit, time.Since(begin))
	fmt.Print(text)
	return ok, os.WriteFile(report, []byte(text), 0o644)
}
