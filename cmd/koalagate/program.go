package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// program is one run of the command: what it is given, where it reads and where
// it writes.
type program struct {
	args    []string
	environ []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for was done and found wanting, or failed
	exitUsage  = 2 // what was asked for cannot be made out
)

// failure is an error that is not the command line's: it ends with exitFailed.
type failure struct{ error }

// Unwrap is the error itself.
func (f failure) Unwrap() error { return f.error }

// failed makes err end the program with exitFailed. An empty text says nothing
// more: what there is to say was written.
func failed(format string, args ...any) error { return failure{fmt.Errorf(format, args...)} }

// errReported is a failure that needs no further word.
var errReported = failure{errors.New("")}

// output is the standard output, and the first fault of writing to it: most of
// what prints has nobody to tell.
type output struct {
	io.Writer
	fault error
}

// Write writes on.
func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if o.fault == nil {
		o.fault = err
	}
	return n, err
}

// run carries out the command and returns its exit code.
func (p *program) run() int {
	out := &output{Writer: p.stdout}
	p.stdout = out
	root := p.root()
	root.SetArgs(p.args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	ran, err := root.ExecuteC()
	var f failure
	switch {
	case out.fault != nil: // whatever was found, whoever asked has not got it
		fmt.Fprintf(p.stderr, "koalagate: writing the output: %v\n", out.fault)
		return exitFailed
	case err == nil:
		return exitOK
	case errors.As(err, &f):
		if text := err.Error(); text != "" {
			fmt.Fprintf(p.stderr, "koalagate: %s\n", text)
		}
		return exitFailed
	}
	fmt.Fprintf(p.stderr, "koalagate: %s\nTry `%s --help`.\n", worded(ran, err), ran.CommandPath())
	return exitUsage
}

// worded is a fault of the command line in our words: of what cannot be read,
// pflag says what strconv does.
func worded(ran *cobra.Command, err error) error {
	var absent *pflag.NotExistError
	if errors.As(err, &absent) && len(absent.GetSpecifiedName()) > 1 {
		return unknownFlag(ran, absent.GetSpecifiedName())
	}
	var invalid *pflag.InvalidValueError
	var unread *strconv.NumError
	if !errors.As(err, &invalid) {
		return err
	}
	if invalid.GetFlag().Value.Type() == "duration" {
		return fmt.Errorf("--%s is %q; want a duration with its unit, like 250ms or 5s", invalid.GetFlag().Name, invalid.GetValue())
	}
	if !errors.As(err, &unread) {
		return fmt.Errorf("--%s is %q; %w", invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap())
	}
	want := "a whole number"
	switch kind := invalid.GetFlag().Value.Type(); {
	case kind == "bool":
		want = "true or false"
	case strings.HasPrefix(kind, "uint"):
		want = "a whole number from 0 on"
	case strings.HasPrefix(kind, "float"):
		want = "a number"
	}
	return fmt.Errorf("--%s is %q; want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}

// root is the command without a word behind it.
func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "koalagate",
		Short: "Authorization and rate limits for gateways",
		Long:  "koalagate answers gateways whether a request may pass, by the rules of its rule files.",
		// Errors are worded in run, and a wrong flag is no reason for a page
		// of help.
		SilenceErrors: true,
		SilenceUsage:  true,
		// Two slips are still a slip.
		SuggestionsMinimumDistance: 2,
		Args:                       noArguments,
		RunE:                       func(*cobra.Command, []string) error { return errors.New("a command is missing") },
	}
	root.AddCommand(p.serveCommand(), p.checkCommand(), p.fmtCommand(), p.explainCommand(), p.replayCommand(), p.probeCommand(), p.configCommand(), p.versionCommand())
	return root
}

// noArguments refuses words that mean nothing.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.HasParent() {
		return fmt.Errorf("%q means nothing here", args[0])
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("there is no command %q; did you mean %q?", args[0], near[0])
	}
	return fmt.Errorf("there is no command %q", args[0])
}
