package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/env"
)

// program is one run of the command, with its arguments, environment and streams.
type program struct {
	args      []string
	environ   []string
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
	installed installed

	// contents is the standard output for commands whose output is the contents of a file,
	// byte by byte.
	contents io.Writer
	colors   bool // of the standard output
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the command failed or found problems
	exitUsage  = 2 // the command line is invalid

	exitConflict = 3 // a change contradicts an earlier one, and nothing changed
)

// failure is an error other than an invalid command line; it ends the program
// with exitFailed.
type failure struct{ error }

// Unwrap returns the error itself.
func (f failure) Unwrap() error { return f.error }

// failed returns a failure with a formatted message. The program prints no
// message if it is empty.
func failed(format string, args ...any) error { return failure{fmt.Errorf(format, args...)} }

// trouble is an error of a command whose exit code exitFailed means a difference; it
// ends the program with exitUsage.
type trouble struct{ error }

// Unwrap returns the error itself.
func (t trouble) Unwrap() error { return t.error }

// conflict is a change that contradicts an earlier one; it ends the program with
// exitConflict.
type conflict struct{ error }

// Unwrap returns the error itself.
func (c conflict) Unwrap() error { return c.error }

// errReported is a failure whose cause has been printed.
var errReported = failure{errors.New("")}

// output is the standard output. It keeps the first error of writing to it, since
// most code that prints does not check errors.
type output struct {
	io.Writer
	fault error
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if o.fault == nil {
		o.fault = err
	}
	return n, err
}

// run runs the command and returns its exit code.
func (p *program) run() int {
	out := &output{Writer: p.stdout}
	terminal := isTerminal(p.stdout)
	p.colors = terminal && env.Value(p.environ, "NO_COLOR") == "" && env.Value(p.environ, "TERM") != "dumb"
	p.stdout, p.stderr = &display.Screen{Writer: out, Colors: p.colors}, &display.Screen{Writer: p.stderr}
	if p.contents = out; terminal {
		p.contents = p.stdout
	}
	root := p.root()
	completeValues(root)
	root.SetArgs(p.args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	ran, err := root.ExecuteC()
	var f failure
	var t trouble
	switch {
	case out.fault != nil: // the result is lost, whatever it was
		fmt.Fprintf(p.stderr, "koalagate: writing the output: %v\n", out.fault)
		if err != nil && err.Error() != "" && !errors.Is(err, out.fault) {
			fmt.Fprintf(p.stderr, "koalagate: %v\n", err)
		}
		return exitFailed
	case err == nil:
		return exitOK
	case errors.As(err, &f):
		if text := err.Error(); text != "" {
			fmt.Fprintf(p.stderr, "koalagate: %s\n", text)
		}
		return exitFailed
	}
	var c conflict
	if errors.As(err, &c) {
		fmt.Fprintf(p.stderr, "koalagate: %v\n", err)
		return exitConflict
	}
	if errors.As(err, &t) {
		fmt.Fprintf(p.stderr, "koalagate: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(p.stderr, "koalagate: %s\nTry `%s --help`.\n", usageError(ran, err), ran.CommandPath())
	return exitUsage
}

// isTerminal reports whether an output is a terminal.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// usageError returns an error of the command line in plain words. The errors of
// pflag quote the errors of strconv.
func usageError(ran *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		return unknownFlag(ran, unknown.GetSpecifiedName())
	}
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) {
		return err
	}
	if invalid.GetFlag().Value.Type() == "duration" {
		return fmt.Errorf("--%s is %q; want a number with a unit, such as 250ms, 5s, 90m or 24h: the units are ms, s, m and h, and a day is 24h", invalid.GetFlag().Name, invalid.GetValue())
	}
	if !errors.As(err, &number) {
		return fmt.Errorf("--%s is %q; %w", invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap())
	}
	want := "an integer"
	switch kind := invalid.GetFlag().Value.Type(); {
	case kind == "bool":
		want = "true or false"
	case strings.HasPrefix(kind, "uint"):
		want = "a non-negative integer"
	case strings.HasPrefix(kind, "float"):
		want = "a number"
	}
	return fmt.Errorf("--%s is %q; want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}

// root returns the command with all its subcommands.
func (p *program) root() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "koalagate",
		Short: "Authorization and rate limits for gateways",
		Long:  "koalagate decides for gateways whether requests may pass, by the rules in its rule files.",
		Example: "  koalagate serve --rules rules.conf\n" +
			"  koalagate check rules.conf\n" +
			"  koalagate explain --rules rules.conf --request 'POST /api/comments' -H 'X-User-Id: ann' --peer 203.0.113.7",
		// run prints errors, and an invalid flag does not print the help.
		SilenceErrors: true,
		SilenceUsage:  true,
		// Two wrong letters still get a suggestion.
		SuggestionsMinimumDistance: 2,
		Args:                       noArguments,
		RunE: func(*cobra.Command, []string) error {
			if version {
				return p.printVersion()
			}
			return errors.New("missing command")
		},
	}
	// cobra's own flag needs a template for these words, and with text/template the linker keeps
	// every method of every type of the program.
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version")
	root.AddCommand(p.serveCommand(), p.rateLimitCommand(), p.importCommand(), p.checkCommand(), p.fmtCommand(), p.exceptionCommand(), p.keyCommand(), p.explainCommand(), p.testCommand(), p.replayCommand(), p.resetCommand(), p.diffCommand(), p.gatewayCommand(), p.probeCommand(), p.configCommand(), p.healthcheckCommand(), p.publishCommand(), p.rollbackCommand(), p.versionsCommand(), p.instancesCommand(), p.trialCommand(), p.manCommand(), p.topCommand(), p.versionCommand(), p.whyCommand())
	return root
}

// noArguments rejects unexpected arguments and unknown commands.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !c.HasSubCommands() {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("unknown command %q; did you mean %q?", args[0], near[0])
	}
	return fmt.Errorf("unknown command %q", args[0])
}
