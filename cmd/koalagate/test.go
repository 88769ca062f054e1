package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/ruletest"
)

// The case files of a folder.
const (
	caseSuffix = "_test.yaml"
	caseFiles  = "*" + caseSuffix
)

func (p *program) testCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "test CASES…",
		Short: "Run unit tests of rule files",
		Long: "Run unit tests of rule files. CASES are case files in YAML, or folders, which stand for their\n" +
			"*_test.yaml files. A case file names rule files, requests, times and the expected answers:\n\n" +
			"  rules: gateway.conf\n" +
			"  peer: 203.0.113.7\n" +
			"  cases:\n" +
			"    - name: four comments in 90 seconds\n" +
			"      steps:\n" +
			"        - {request: POST /api/comments, headers: {X-User-Id: ann}, times: 4, expect: allow}\n" +
			"        - {request: POST /api/comments, headers: {X-User-Id: ann}, after: 30s, expect: {verdict: deny, rule: 201, retry: 60s}}\n\n" +
			"Counters are in process and empty at the beginning of each case, and the steps move the\n" +
			"clock: nothing waits. docs/rule-tests.md describes the format. The exit code is 0 if all cases\n" +
			"pass, 1 if a case fails or the rules cannot be loaded, and 2 if the command line or a case file\n" +
			"is invalid; nothing is run then.",
		Example: "  koalagate test rules/\n  koalagate test --junit report.xml rules/gateway_test.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("nothing to test; name a case file, or a folder with " + caseFiles + " files")
			}
			return nil
		},
	}
	junit := c.Flags().String("junit", "", "write a JUnit report to `FILE`")
	c.RunE = func(c *cobra.Command, args []string) error {
		files, err := readCases(args)
		if err != nil {
			return err
		}
		return p.test(c, files, *junit)
	}
	return c
}

// readCases reads case files, and those in folders. The error names the first that
// cannot be read.
func readCases(paths []string) ([]*ruletest.File, error) {
	var files []*ruletest.File
	for _, path := range paths {
		names := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			names = caseFilesIn(path)
			if len(names) == 0 {
				return nil, fmt.Errorf("%s: the folder contains no %s file", path, caseFiles)
			}
		}
		for _, name := range names {
			text, err := os.ReadFile(name) //nolint:gosec // the user names the file
			if err != nil {
				return nil, fmt.Errorf("cannot read the case file: %w", err)
			}
			file, err := ruletest.Parse(name, text)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	return files, nil
}

// caseFilesIn returns the case files of a folder, by name.
func caseFilesIn(folder string) []string {
	entries, _ := os.ReadDir(folder) // an unreadable folder has no files
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), caseSuffix) && !e.IsDir() {
			names = append(names, filepath.Join(folder, e.Name()))
		}
	}
	return names
}

// test runs case files.
func (p *program) test(c *cobra.Command, files []*ruletest.File, junit string) error {
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failures := 0
	results := make([]*ruletest.Result, len(files))
	for i, file := range files {
		result, err := file.Run(ctx)
		if err != nil {
			return failure{err}
		}
		result.WriteText(p.stdout)
		results[i], failures = result, failures+result.Failed()
	}
	if junit != "" {
		if err := writeJUnit(junit, results); err != nil {
			return failed("cannot write the JUnit report: %w", err)
		}
	}
	if failures > 0 {
		return errReported
	}
	return nil
}

func writeJUnit(path string, results []*ruletest.Result) error {
	f, err := os.Create(path) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	return errors.Join(ruletest.WriteJUnit(f, results), f.Close())
}
