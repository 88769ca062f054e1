package traffic

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Knows reports whether a binary of koalagate knows the rules of the limits of these names.
func Knows(ctx context.Context, binary string, names ...string) (bool, error) {
	c := exec.CommandContext(ctx, binary, "check", "-")
	c.Stdin = strings.NewReader(Rules(names...))
	out, err := c.CombinedOutput()
	var findings *exec.ExitError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &findings) && findings.ExitCode() == 1: // the code for errors of rules
		return false, nil
	}
	return false, fmt.Errorf("%s check: %w\n%s", binary, err, out)
}
