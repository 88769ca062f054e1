package service

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/DeRuina/timberjack"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/metrics"
	"github.com/koalagate/koalagate/internal/trace"
)

// decisionLog writes decisions to the configured log, if there is one.
type decisionLog struct {
	log    *trace.Log // nil without one
	logger *slog.Logger
	mask   *trace.Mask
}

// open opens the configured log. It must be called before the first decision.
func (l *decisionLog) open(c *config.Config, m *metrics.Metrics) error {
	if c.DecisionLog == "" {
		return nil
	}
	dropped := &loglimit.Warner{Logger: l.logger}
	log, err := trace.NewLog(trace.LogOptions{
		Open:  func() (io.WriteCloser, error) { return openRotated(c) },
		Every: c.DecisionLogEvery, Instance: instanceName(),
		Mask: l.mask,
		OnDropped: func(lines int64, fault error) {
			m.DecisionsDropped(lines)
			dropped.Warn("decisions are missing in the decision log", "lines", lines, "path", c.DecisionLog, "error", fault)
		},
	})
	if err != nil {
		return fmt.Errorf("the decision log: %w; decision_log wants a file in a folder that exists and that the service may write", err)
	}
	l.log = log
	return nil
}

// instanceName returns the name of this instance: the machine's name, and the process.
func instanceName() string {
	return fmt.Sprintf("%s:%d", cmp.Or(hostName(), "unknown"), os.Getpid())
}

// hostName returns the machine's name, "" if the system does not know it.
func hostName() string {
	name, _ := os.Hostname() // "" is shown as such
	return name
}

const (
	// megabyte is the unit of sizes in the library that rotates the file.
	megabyte = 1 << 20
	// decisionMode is the permissions of the file, which may hold values that
	// callers sent.
	decisionMode = 0o640
)

// openRotated opens the file, which is renamed when it is full. The library opens it
// with the first line, so openRotated opens it once to return errors now. A pipe,
// such as /dev/stdout, is never renamed. Of a symbolic link, the target
// is renamed: renaming /dev/stdout itself would take it from all processes.
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

// lineBegin is the beginning of every line of a decision log.
const lineBegin = `{"t":`

// cutBrokenLine removes the last line if it is an incomplete line of a decision log,
// which a full disk or a power failure can leave: the next line would continue it, and
// a replay could read neither. It removes nothing else.
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

// reopen opens the file again, after another program has renamed it.
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
		l.logger.Warn("the decision log was not closed; its last lines may be missing", "error", err)
	}
}
