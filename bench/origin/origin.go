// Package origin describes the origin of measurements: commit and machine.
package origin

import (
	"context"
	"os"
	"os/exec"
	"strings"
)

// Commit returns the commit of the working folder, with a + if files that match the
// git pathspecs have changes, or "unknown".
func Commit(ctx context.Context, paths ...string) string {
	hash, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changes := append([]string{"diff", "--quiet", "HEAD", "--"}, paths...)
	if exec.CommandContext(ctx, "git", changes...).Run() != nil { //nolint:gosec // the paths are constants of the program
		return strings.TrimSpace(string(hash)) + "+"
	}
	return strings.TrimSpace(string(hash))
}

// Processor returns the model name from /proc/cpuinfo, if available.
func Processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, model, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "an unknown processor"
}

// Load returns Linux's load average of the last minute, or "unknown".
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	average, _, _ := strings.Cut(string(text), " ")
	return average
}
