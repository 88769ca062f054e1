package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/replay"
	"github.com/koalagate/koalagate/internal/sandbox"
	redisserver "github.com/koalagate/koalagate/internal/store/redisconn"
)

func (p *program) replayCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "replay --rules PATH… TRACE.jsonl",
		Short: "Answer a recorded trace with other rules",
		Long: "Answer a recorded trace with a rule set, at the times that the trace names. This shows what\n" +
			"new rules would have done to yesterday's traffic. TRACE is a file, or - for the standard\n" +
			"input, with one call per line:\n\n" +
			`  {"t":1780286400000,"op":"take","params":{"act":"ask","uid":"7"},"hits":1}` + "\n\n" +
			"t is in ms since the epoch; op defaults to take and hits to 1. \"sets\":[{\"params\":…},…]\n" +
			"makes a call with several parameter sets. The decision log of `serve` is such a trace.\n" +
			"The output has one JSON answer per line. An invalid line ends the replay with exit code 1.",
		Example: "  koalagate replay --rules new.conf decisions.jsonl > answers.jsonl\n" +
			"  koalagate replay --rules new.conf --summary decisions.jsonl",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("got %d traces; want one file, or - for the standard input", len(args))
			}
			return nil
		},
	}
	var files reload.Files
	var o replay.Options
	f := c.Flags()
	f.StringVar(&o.Counters.Store, "store", sandbox.Memory, "memory, or the `URL` of a Redis; its keys get a random prefix and are removed at the end")
	f.StringVar(&o.Counters.RedisPrefix, "redis-prefix", sandbox.DefaultRedisPrefix, "`PREFIX` of the keys in Redis, before the random part")
	f.BoolVar(&o.Summarize, "summary", false, "print a summary instead of the answers")
	addRulesFlags(c, &files)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		set, err := p.loadRules(files)
		if err != nil {
			return err
		}
		in, err := p.openTrace(args[0])
		if err != nil {
			return failure{err}
		}
		defer in.Close()
		redisserver.LogClient(func(string) {}) // the errors of calls report the same failures
		o.Rules, o.Trace = set, in
		o.OnMasked = func(m replay.MaskedParam) { fmt.Fprintf(p.stderr, "koalagate: %s\n", m) }
		if !o.Summarize {
			o.Answers = p.stdout
		}
		report, err := replay.Run(ctx, o)
		if err != nil {
			return failure{err}
		}
		if report != nil {
			report.WriteText(p.stdout)
		}
		return nil
	}
	return c
}

// openTrace opens a trace file, or the standard input for "-".
func (p *program) openTrace(path string) (io.ReadCloser, error) {
	if path == standardInput {
		return io.NopCloser(p.stdin), nil
	}
	f, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("cannot read the trace: %w", err)
	}
	return f, nil
}
