// Command bench measures the promised performance: it builds and runs the programs that
// measure, one after the other, and makes one report of their figures, with the goals for
// them. `make bench` keeps the report as docs/reports/bench.md, and the one before it in
// docs/reports/bench.
//
//	go run ./bench [-short] [-parts REGEXP] [-keep]
//
// Each part is a program of its own that also runs alone, such as `go run ./bench/load`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/koalagate/koalagate/bench/origin"
	"github.com/koalagate/koalagate/bench/quote"
	"github.com/koalagate/koalagate/bench/report"
)

// parts are the programs that measure, by the names of their folders.
var parts = []string{"script", "load", "language", "hostile", "operators", "publish", "scale", "micro"}

func main() {
	var b bench
	chosen := flag.String("parts", "", "a regular expression for the names of the parts: "+strings.Join(parts, ", "))
	flag.BoolVar(&b.short, "short", false, "measure briefly and roughly, for development")
	keep := flag.Bool("keep", false, "write the report to "+report.Newest+", keep the one before it, and update the pages that quote it")
	pages := flag.Bool("pages", false, "only update the pages that quote "+report.Newest)
	flag.Parse()
	if *pages {
		if err := quote.Update("."); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.run(ctx, *chosen, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	short bool
	dir   string // of the programs and their figures
	// programs to compare with, "" without one.
	peer   string // envoyproxy/ratelimit
	before string // koalagate at the commit of goals
}

func (b *bench) run(ctx context.Context, chosen string, keep bool) error {
	only, err := regexp.Compile(chosen)
	if err != nil {
		return fmt.Errorf("-parts: %w", err)
	}
	list := slices.DeleteFunc(slices.Clone(parts), func(name string) bool { return !only.MatchString(name) })
	if keep && len(list) < len(parts) {
		return errors.New("-keep keeps the report of all parts, so that -parts cannot be used with it")
	}
	if b.dir, err = os.MkdirTemp("", "koalagate-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	load := origin.Load() // before building, which is load too
	if err := b.build(ctx, list); err != nil {
		return err
	}
	run := report.Run{
		Commit: origin.Commit(ctx, "*.go", "*.lua", "go.mod"), Begun: time.Now(), Short: b.short,
		Machine: fmt.Sprintf("%d × %s, %s/%s", runtime.NumCPU(), origin.Processor(), runtime.GOOS, runtime.GOARCH), Load: load,
		Programs: append([]string{runtime.Version()}, b.peerVersion()...),
	}
	var measured []*report.Part
	for _, name := range list {
		p, err := b.measure(ctx, name)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "%s: %v; once more\n", name, err)
			p, err = b.measure(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		measured = append(measured, p)
		run.Programs = append(run.Programs, p.Programs...)
	}
	run.Took = time.Since(run.Begun)
	kept, err := report.ReadKept(".")
	if err != nil {
		return err
	}
	page, err := report.Compose(&run, goals, measured, kept)
	if err != nil {
		return err
	}
	if err := show(page); err != nil || !keep {
		return err
	}
	return errors.Join(report.Keep(".", page), quote.Update("."))
}

// build builds the programs of the parts, and the other program to compare with.
func (b *bench) build(ctx context.Context, list []string) error {
	for _, name := range list {
		c := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(b.dir, name), "./bench/"+name) //nolint:gosec // a part
		c.Stderr = os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("building %s: %w", name, err)
		}
	}
	if !slices.Contains(list, "load") {
		return nil
	}
	var err error
	if b.peer, err = scriptOf(ctx, "bench/peers.sh"); err != nil {
		return err
	}
	if b.before, err = scriptOf(ctx, "bench/commit.sh", beforeFeatures); err != nil {
		fmt.Fprintf(os.Stderr, "koalagate at commit %s cannot be built; the report omits it: %v\n", beforeFeatures, err)
	}
	return nil
}

// scriptOf returns the path that a script prints.
func scriptOf(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // a script of the repository
	c.Stderr = os.Stderr
	path, err := c.Output()
	return strings.TrimSpace(string(path)), err
}

// peerVersion returns the other program with its version, which is a part of its path.
func (b *bench) peerVersion() []string {
	_, version, found := strings.Cut(filepath.Base(filepath.Dir(b.peer)), "peers-")
	if !found {
		return nil
	}
	return []string{"envoyproxy/ratelimit " + version}
}

// measure runs the program of a part.
func (b *bench) measure(ctx context.Context, name string) (*report.Part, error) {
	figures := filepath.Join(b.dir, name+".json")
	args := []string{"-figures", figures, fmt.Sprintf("-short=%v", b.short)}
	if name == "load" {
		args = append(args, "-ratelimit", b.peer, "-before", b.before)
	}
	fmt.Printf("\n# %s\n", name)
	c := exec.CommandContext(ctx, filepath.Join(b.dir, name), args...) //nolint:gosec // built by this program
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // it stops what it has started
	c.WaitDelay = time.Minute
	if err := c.Run(); err != nil {
		return nil, err
	}
	return report.ReadPart(figures)
}

// show prints the goals of a report. On a terminal it prints missed goals in red.
func show(page string) error {
	p, err := report.Parse(page)
	if err != nil {
		return err
	}
	info, err := os.Stdout.Stat()
	if err != nil {
		return err
	}
	terminal := info.Mode()&os.ModeCharDevice != 0
	fmt.Print("\n# Goals\n\n")
	for _, t := range p.Tables[report.GoalsSection] {
		for line := range strings.Lines(t.Markdown()) {
			if terminal && strings.Contains(line, report.Missed) {
				line = "\x1b[31m" + strings.TrimSuffix(line, "\n") + "\x1b[0m\n"
			}
			fmt.Print(line)
		}
	}
	return nil
}
