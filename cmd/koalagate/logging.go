package main

import (
	"io"
	"log/slog"

	"github.com/koalagate/koalagate/internal/config"
)

// newLogger writes to w in the form and from the level that are configured.
func newLogger(w io.Writer, c *config.Config) *slog.Logger {
	var level slog.Level
	// The names are checked by the configuration, and are slog's own.
	_ = level.UnmarshalText([]byte(c.LogLevel))
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}
