package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/DeRuina/timberjack"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/trace"
)

// decisionLog is where decisions are written down, if that is configured.
type decisionLog struct {
	log    *trace.Log // nil if it is not
	logger *slog.Logger
}

// openDecisionLog opens the log that is configured.
func openDecisionLog(c *config.Config, m *metrics.Metrics, logger *slog.Logger) (*decisionLog, error) {
	l := &decisionLog{logger: logger}
	if c.DecisionLog == "" {
		return l, nil
	}
	dropped := complaints{logger: logger}
	log, err := trace.NewLog(trace.LogOptions{
		Open:  func() (io.WriteCloser, error) { return openRotated(c) },
		Every: c.DecisionLogEvery,
		Mask:  trace.NewMask(c.DecisionLogParams),
		OnDropped: func(lines int64, fault error) {
			m.DecisionsDropped(lines)
			dropped.tell("decisions are missing in the decision log", "lines", lines, "path", c.DecisionLog, "error", fault)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("the decision log: %w", err)
	}
	l.log = log
	return l, nil
}

// The bytes of what the library counts by, and the permissions of a log that
// may hold what callers sent.
const (
	megabyte     = 1 << 20
	decisionMode = 0o640
)

// openRotated opens the file, which moves aside when it is full. The library
// opens it with the first line, so it is tried here whether it can be. What is
// no file, such as the pipe that /dev/stdout leads to, is written to as it is;
// of a link the file behind it moves, since to rename /dev/stdout itself would
// take it from everybody.
func openRotated(c *config.Config) (io.WriteCloser, error) {
	f, err := os.OpenFile(c.DecisionLog, os.O_CREATE|os.O_APPEND|os.O_RDWR, decisionMode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return f, nil
	}
	path, unresolved := filepath.EvalSymlinks(c.DecisionLog)
	if err := errors.Join(err, unresolved, cutBrokenLine(f), f.Close()); err != nil {
		return nil, err
	}
	return &timberjack.Logger{
		Filename: path, FileMode: decisionMode,
		MaxSize: c.DecisionLogMaxSize / megabyte, MaxBackups: c.DecisionLogKeep,
	}, nil
}

// lineBegin is how a line of a log begins.
const lineBegin = `{"t":`

// cutBrokenLine takes the last line away if it is one of a log that has no end:
// what a full disk or a power failure left. Behind it the next line would be
// none that a replay reads. Nothing else is ever taken away.
func cutBrokenLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	size := info.Size()
	tail := make([]byte, min(size, trace.MaxLine+1))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return err
	}
	last := tail[bytes.LastIndexByte(tail, '\n')+1:]
	if len(last) == 0 || len(last) > trace.MaxLine || !bytes.HasPrefix(last, []byte(lineBegin[:min(len(last), len(lineBegin))])) {
		return nil
	}
	return f.Truncate(size - int64(len(last)))
}

// observe is made for engine.Observe.
func (l *decisionLog) observe(c *engine.Call, d *engine.Decision, err error) {
	if l.log != nil {
		l.log.Observe(c, d, err)
	}
}

// reopen lets go of a file that was moved away.
func (l *decisionLog) reopen() {
	if l.log != nil {
		l.log.Reopen()
	}
}

func (l *decisionLog) close() {
	if l.log == nil {
		return
	}
	if err := l.log.Close(); err != nil {
		l.logger.Warn("closing the decision log", "error", err)
	}
}
