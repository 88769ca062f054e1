package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/internal/trace"
)

// replaying is what `replay` is told.
type replaying struct {
	files   reload.Files
	store   string // memory, or the URL of a Redis
	prefix  string
	trace   string // a file, or - for the standard input
	summary bool
}

func (p *program) replayCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "replay --rules PATH… TRACE.jsonl",
		Short: "Ask rules what they would have answered",
		Long: "Ask rules what they would have answered to a recorded trace, under its own clock: to try\n" +
			"them on yesterday's traffic before they are in force. TRACE is a file, or - for the\n" +
			"standard input, with one call a line:\n\n" +
			`  {"t":1780286400000,"op":"take","params":{"act":"ask","uid":"7"},"hits":1}` + "\n\n" +
			"t is ms since the epoch; op is take unless said, hits is 1. \"sets\":[{\"params\":…},…] is a\n" +
			"call of several parameter sets. The decision log of `serve` is such a trace.\n" +
			"The answers are one JSON object a line. A bad line ends the replay with exit code 1.",
		Example: "  koalagate replay --rules new.conf decisions.jsonl > answers.jsonl\n" +
			"  koalagate replay --rules new.conf --summary decisions.jsonl",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("there are %d traces; want one, or - for the standard input", len(args))
			}
			return nil
		},
	}
	r := new(replaying)
	c.Flags().StringArrayVar(&r.files.Paths, "rules", nil, "rule `PATH`: a file, or a folder of *.conf; may be given several times")
	c.Flags().StringVar(&r.store, "store", storeMemory, "memory, or the `URL` of a Redis, where a prefix of its own is used and cleared")
	c.Flags().StringVar(&r.prefix, "redis-prefix", "koala-replay", "what that prefix begins with")
	c.Flags().BoolVar(&r.summary, "summary", false, "print a summary for people in place of the answers")
	addFileFlags(c, &r.files)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(r.files.Paths) == 0 {
			return errors.New("there are no rules; give --rules PATH")
		}
		r.trace = args[0]
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return p.replay(ctx, r)
	}
	return c
}

// replay answers a trace.
func (p *program) replay(ctx context.Context, r *replaying) (err error) {
	set, findings, err := r.files.Load()
	if err != nil {
		return failure{err}
	}
	printFindings(p.stderr, findings)
	if findings.HasErrors() {
		return errTold
	}
	in, err := p.openTrace(r.trace)
	if err != nil {
		return failure{err}
	}
	defer in.Close()
	counters, err := openReplayStore(r.store, r.prefix)
	if err != nil {
		return failure{err}
	}
	defer func() {
		// The keys go in any case, and so after an interrupt too.
		if cleared := counters.clear(context.WithoutCancel(ctx)); err == nil && cleared != nil {
			err = failure{cleared}
		}
	}()
	out := bufio.NewWriter(p.stdout)
	session := &session{
		engine: engine.New(counters, set), counters: counters, lines: trace.NewReader(in), out: out,
		masked: newMaskedValues(set, p.stderr),
	}
	if r.summary {
		session.summary = newSummary(set)
	}
	err = session.run(ctx)
	if err == nil && r.summary {
		session.summary.write(out)
	}
	// What was answered before a fault stays answered.
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		return failure{err}
	}
	return nil
}

// openTrace opens a trace for reading.
func (p *program) openTrace(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(p.stdin), nil
	}
	f, err := os.Open(path) //nolint:gosec // it is what the user named
	if err != nil {
		return nil, fmt.Errorf("the trace cannot be read: %w", err)
	}
	return f, nil
}

// session is a replay under way.
type session struct {
	engine   *engine.Engine
	counters *replayStore
	lines    *trace.Reader
	out      *bufio.Writer
	masked   *maskedValues
	summary  *summary // nil where the answers are printed
	answer   []byte
}

// lineRead is a line that was read, or why none was.
type lineRead struct {
	line   *trace.Line
	number int
	err    error
}

// run answers line after line. An interrupt ends it even where whoever writes
// the trace is silent: the reading goroutine is then left to the end of the
// process.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan lineRead, 64)
	go s.read(ctx, lines)
	for {
		if len(lines) == 0 { // whoever writes the trace may wait for the answers
			if err := s.out.Flush(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("interrupted")
		case q := <-lines:
			if errors.Is(q.err, io.EOF) {
				return nil
			}
			if q.err == nil {
				q.err = s.step(ctx, q)
			}
			if q.err != nil {
				return q.err
			}
		}
	}
}

// read reads ahead of the answers, up to the end or a bad line.
func (s *session) read(ctx context.Context, lines chan<- lineRead) {
	for {
		line, err := s.lines.Next()
		select {
		case lines <- lineRead{line, s.lines.Number(), err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// step answers one line.
func (s *session) step(ctx context.Context, q lineRead) error {
	call := q.line.Call()
	s.masked.look(q.number, call)
	d, err := s.engine.Decide(ctx, call)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return fmt.Errorf("line %d: %w", q.number, err)
	case d.Unavailable:
		return fmt.Errorf("line %d: %w", q.number, s.counters.fault)
	}
	if s.summary != nil {
		s.summary.add(q, call, d)
		return nil
	}
	s.answer = append(trace.AppendAnswer(s.answer[:0], call.Op, d, q.line.Several()), '\n')
	_, err = s.out.Write(s.answer)
	return err
}
