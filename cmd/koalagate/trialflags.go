package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/adminapi"
)

// trialFlags are the flags of a publish that begins with a trial.
type trialFlags struct {
	length time.Duration
	then   choice
	abort  abortFlag
	flags  *cobra.Command
}

func (t *trialFlags) add(c *cobra.Command) {
	t.then, t.flags = choice{value: "ask", among: []string{"enforce", "keep", "ask"}}, c
	f := c.Flags()
	f.DurationVar(&t.length, "trial", 0, "`DURATION` for which the version decides next to the one in force, without effect")
	f.Var(&t.then, "then", "`WORD` for what follows the trial: enforce it, keep the version in force, or ask")
	f.Var(&t.abort, "abort-if", "`CONDITION` newly-refused>N%, which ends the trial, from 1,000 requests on")
}

// options returns the options of the trial, nil without one.
func (t *trialFlags) options() (*adminapi.NewTrial, error) {
	if !t.flags.Flags().Changed("trial") {
		for _, name := range []string{"then", "abort-if"} {
			if t.flags.Flags().Changed(name) {
				return nil, fmt.Errorf("--%s without --trial", name)
			}
		}
		return nil, nil
	}
	const longest = 31 * 24 * time.Hour
	if t.length < time.Second || t.length > longest {
		return nil, fmt.Errorf("--trial is %v; want 1s … 744h", t.length)
	}
	return &adminapi.NewTrial{LengthMS: t.length.Milliseconds(), Then: t.then.value, AbortAbove: float64(t.abort)}, nil
}

// abortFlag is a share in percent, as newly-refused>N%.
type abortFlag float64

// String returns "", the default of the flag.
func (a *abortFlag) String() string { return "" }

// Set parses a condition.
func (a *abortFlag) Set(text string) error {
	share, isShare := strings.CutPrefix(strings.ReplaceAll(text, " ", ""), "newly-refused>")
	share, isPercent := strings.CutSuffix(share, "%")
	value, err := strconv.ParseFloat(share, 64)
	if !isShare || !isPercent || err != nil || !(value > 0 && value < 100) {
		return errors.New("want newly-refused>N%, such as newly-refused>1%")
	}
	*a = abortFlag(value)
	return nil
}

// Type returns the type name in usage messages.
func (a *abortFlag) Type() string { return "string" }
