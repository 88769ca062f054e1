// Package origin tells where measurements come from: of which tree, on which
// machine.
package origin

import (
	"context"
	"os"
	"os/exec"
	"strings"
)

// Commit is the commit of the tree that holds the working folder, with a + if
// the files that the paths name, as git reads them, have changes.
func Commit(ctx context.Context, paths ...string) string {
	hash, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changes := append([]string{"diff", "--quiet", "HEAD", "--"}, paths...)
	if exec.CommandContext(ctx, "git", changes...).Run() != nil { //nolint:gosec // the paths are the program's own
		return strings.TrimSpace(string(hash)) + "+"
	}
	return strings.TrimSpace(string(hash))
}

// Processor is the model that Linux tells of, if it does.
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
