// Package replay answers a recorded trace with a rule set, and compares the
// answers with the recorded ones.
package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/koalagate/koalagate/internal/sandbox"
	"github.com/koalagate/koalagate/internal/trace"
	"github.com/koalagate/koalagate/rules"
)

// readAhead is the number of lines that are parsed ahead of the answers.
const readAhead = 64

// ErrInterrupted is the error of a replay whose context ended.
var ErrInterrupted = errors.New("interrupted")

// Options configures Run.
type Options struct {
	// Rules decides the calls.
	Rules *rules.Set
	// Trace has one call per line, in the format of package trace.
	Trace io.Reader
	// Traces are read instead of Trace if they are not nil.
	Traces *trace.Files
	// Counters selects where the calls are counted; the zero value counts in
	// process.
	Counters sandbox.Options
	// Answers receives one JSON answer per line; nil discards them. Run flushes
	// what it buffers whenever no further line is available, so that a program
	// can write the next line depending on the answer.
	Answers io.Writer
	// Summarize makes Run return a report. It costs a second match of each call.
	Summarize bool
	// Recorded makes Run return a report of the recorded answers, without deciding.
	Recorded bool
	// OnMasked receives each parameter whose value was masked although rules
	// compare it, once per parameter; nil ignores them. Run calls it in its own
	// goroutine.
	OnMasked func(MaskedParam)
	// OnInexact receives the reason why decisions differ from those of a service with
	// enough memory, at the end; nil ignores it.
	OnInexact func(reason string)
}

// Run answers the trace line by line, at the time that each line names. It
// returns the report if o.Summarize is set, and nil otherwise. The error names
// the first line that cannot be parsed or decided; answers before it have been
// written. If ctx ends, the error is ErrInterrupted; a goroutine that still
// reads from a silent o.Trace then ends with its next line. Counters in Redis
// are removed in any case.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	counters, err := sandbox.Open(o.Rules, o.Counters)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cleared := counters.Close(ctx); err == nil {
			err = cleared
		}
	}()
	if o.Answers == nil {
		o.Answers = io.Discard
	}
	if o.Traces == nil {
		o.Traces = trace.NewFiles(o.Trace)
	}
	r := &run{
		counters: counters, lines: o.Traces, recorded: o.Recorded, out: bufio.NewWriter(o.Answers),
		masked: newMaskedParams(ctx, o.Rules, o.OnMasked), receipts: newReceipts(o.Rules),
	}
	if o.Summarize || o.Recorded {
		r.summary = NewSummary(o.Rules)
	}
	err = r.all(ctx)
	if reason := counters.Inexact(); reason != "" && o.OnInexact != nil {
		o.OnInexact(reason)
	}
	if flushed := r.out.Flush(); err == nil {
		err = flushed
	}
	if err != nil || r.summary == nil {
		return nil, err
	}
	return r.summary.Report(), nil
}

// run is one replay.
type run struct {
	counters *sandbox.Sandbox
	lines    *trace.Files
	recorded bool
	out      *bufio.Writer
	masked   *maskedParams
	receipts *receipts
	summary  *Summary // nil without a report
	answer   []byte
}

// parsedLine is a line of the trace, or the reason why there is none.
type parsedLine struct {
	line  *trace.Line
	place trace.Place
	err   error
}

// all answers all lines.
func (r *run) all(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan parsedLine, readAhead)
	go r.read(ctx, lines)
	for {
		if len(lines) == 0 { // the writer of the trace may wait for the answers
			if err := r.out.Flush(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ErrInterrupted
		case l := <-lines:
			if errors.Is(l.err, io.EOF) {
				return nil
			}
			if l.err == nil {
				l.err = r.step(ctx, l)
			}
			if l.err != nil {
				return l.err
			}
		}
	}
}

// read sends lines up to the end of the trace or the first invalid line.
func (r *run) read(ctx context.Context, lines chan<- parsedLine) {
	for {
		line, err := r.lines.Next()
		select {
		case lines <- parsedLine{line, r.lines.Place(), err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// step answers one line.
func (r *run) step(ctx context.Context, l parsedLine) error {
	if l.line.IsOnReceipt() {
		return r.end(ctx, l)
	}
	call := l.line.Call()
	if r.recorded {
		r.summary.addRecorded(l, call)
		return nil
	}
	r.masked.check(l.place, call)
	d, err := r.counters.Decide(ctx, call)
	switch {
	case ctx.Err() != nil:
		return ErrInterrupted
	case err != nil:
		return fmt.Errorf("%s: %w", l.place, err)
	}
	if err := r.receipts.note(l.line, d); err != nil {
		return fmt.Errorf("%s: %w", l.place, err)
	}
	if l.line.Receipt == "" {
		d.Receipt = "" // the answer has what the line asks for
	}
	r.answer = trace.AppendAnswer(r.answer[:0], call.Op, d, l.line.Several())
	if r.summary != nil {
		r.summary.Add(call, d)
		r.summary.compareRecorded(l, call.Op, d, r.answer)
	}
	return r.write()
}

// end answers a line about a receipt.
func (r *run) end(ctx context.Context, l parsedLine) error {
	if r.summary != nil {
		r.summary.addEnd(l.line.T)
	}
	if r.recorded {
		return nil
	}
	known, err := r.receipts.end(ctx, r.counters, l.line)
	switch {
	case ctx.Err() != nil:
		return ErrInterrupted
	case err != nil:
		return fmt.Errorf("%s: %w", l.place, err)
	}
	r.answer = trace.AppendEnd(r.answer[:0], known)
	return r.write()
}

// write writes the answer.
func (r *run) write() error {
	r.answer = append(r.answer, '\n')
	_, err := r.out.Write(r.answer)
	return err
}
