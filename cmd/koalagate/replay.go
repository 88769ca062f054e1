package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/replay"
	"github.com/koalagate/koalagate/internal/sandbox"
	redisserver "github.com/koalagate/koalagate/internal/store/redisconn"
	"github.com/koalagate/koalagate/internal/trace"
)

func (p *program) replayCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "replay --rules PATH… TRACE…",
		Short: "Answer a recorded trace with other rules",
		Long: "Answer a recorded trace with a rule set, at the times that the trace names. This shows what\n" +
			"new rules would have done to yesterday's traffic. TRACE is a file, also a compressed one\n" +
			"(.gz), or - for the standard input, with one call per line; several are read in order:\n\n" +
			`  {"t": 1780286400000, "op": "take", "params": {"act": "ask", "uid": "7"}, "hits": 1}` + "\n\n" +
			"t is in ms since the epoch; op defaults to take and hits to 1. \"sets\":[{\"params\":…},…]\n" +
			"makes a call with several parameter sets. The decision log of `serve` is such a trace.\n" +
			"The output has one JSON answer per line. An invalid line ends the replay with exit code 1.",
		Example: "  koalagate replay --rules new.conf decisions.jsonl > answers.jsonl\n" +
			"  koalagate replay --rules new.conf --summary decisions.jsonl\n" +
			"  koalagate replay --rules new.conf --summary decisions-*.jsonl.gz decisions.jsonl\n" +
			"  koalagate replay --rules now.conf --recorded decisions.jsonl",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("got 0 traces; want one file, or - for the standard input")
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
	f.BoolVar(&o.Recorded, "recorded", false, "print a summary of the recorded answers, without deciding")
	c.MarkFlagsMutuallyExclusive("summary", "recorded")
	addRulesFlags(c, &files)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		set, err := p.loadRules(files)
		if err != nil {
			return err
		}
		redisserver.LogClient(func(string) {}) // the errors of calls report the same failures
		o.Rules, o.Traces = set, trace.OpenFiles(args, p.stdin)
		masked := 0
		o.OnMasked = func(m replay.MaskedParam) {
			masked++
			fmt.Fprintf(p.stderr, "koalagate: %s\n", m)
		}
		o.OnInexact = p.printReason
		if !o.Summarize && !o.Recorded {
			o.Answers = p.stdout
		}
		report, err := replay.Run(ctx, o)
		switch {
		case err != nil:
			return failure{err}
		case o.Summarize && masked > 0:
			return failed("no summary: the trace masks values that rules compare, so that other requests would be counted; --recorded summarizes the recorded answers instead")
		}
		if report != nil {
			report.WriteText(p.stdout)
		}
		return nil
	}
	return c
}

// printReason prints why decisions about a trace may differ.
func (p *program) printReason(reason string) { fmt.Fprintf(p.stderr, "koalagate: %s\n", reason) }
