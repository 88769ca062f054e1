// Command micro runs the Go benchmarks of the packages on the way of a decision. `make
// bench` runs it, too.
//
//	go run ./bench/micro [-short] [-only REGEXP]
//
// It runs at the root of the module. `make bench BENCH=REGEXP` prints what benchstat reads.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/stats"
)

// module is the path of the module, without which the names of packages are printed.
const module = "github.com/koalagate/koalagate/"

// packages are those whose benchmarks run.
var packages = []string{
	"./engine", "./rules", "./internal/mapping", "./internal/metrics", "./internal/store/memory", "./internal/store/lease",
	"./ratelimit", "./extauthz", "./envoy", "./nginx", "./koala", "./bench/allocations",
}

// elsewhere are benchmarks that take long, or that bench/language runs.
const elsewhere = "WordList|Table|MatchLists|Seed|Hold|Record"

func main() {
	options := report.Flags()
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, options)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/micro:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, options *report.Options) error {
	chosen, err := options.Chosen()
	if err != nil {
		return err
	}
	rounds, span, compared := 3, "30ms", 9
	if options.Short {
		rounds, span, compared = 1, "10ms", 1
	}
	dir, err := os.MkdirTemp("", "koalagate-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := build(ctx, dir); err != nil {
		return err
	}
	output, err := benchmarks(ctx, dir, ".", span, rounds, packages)
	if err != nil {
		return err
	}
	list, err := parse(output, chosen)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("no chosen benchmark in:\n%s", output)
	}
	var turns []byte
	for range compared {
		round, err := benchmarks(ctx, dir, comparedNames, comparedSpan, 1, comparedPackages)
		if err != nil {
			return err
		}
		turns = append(turns, round...)
	}
	inTurns, err := parse(turns, chosen)
	if err != nil {
		return err
	}
	p := options.Begin()
	p.Chapter("Go benchmarks", fmt.Sprintf("Medians of %d runs of %s. Those that goals are about run %d times for %s, in turns, for the goals.", rounds, span, compared, comparedSpan))
	t := report.Table{Columns: []string{"benchmark", "ns", "bytes", "allocations"}}
	for _, b := range list {
		t.Rows = append(t.Rows, []string{b.name, b.median("ns/op"), b.median("B/op"), b.median("allocs/op")})
	}
	p.Add(report.Section{Name: "Benchmarks of packages", Tables: []report.Table{t}})
	if err := compare(p, inTurns, chosen); err != nil {
		return err
	}
	return options.End(p)
}

// build builds the tests of the packages, because go test would do that again each time.
func build(ctx context.Context, dir string) error {
	test := exec.CommandContext(ctx, "go", append([]string{"test", "-c", "-o", dir + string(filepath.Separator)}, packages...)...) //nolint:gosec // constants
	if output, err := test.CombinedOutput(); err != nil {
		return fmt.Errorf("building benchmarks: %w:\n%s", err, output)
	}
	return nil
}

// benchmarks returns the output of benchmarks of packages, whose tests are in dir.
func benchmarks(ctx context.Context, dir, names, span string, rounds int, of []string) (output []byte, err error) {
	for _, folder := range of {
		test := exec.CommandContext(ctx, filepath.Join(dir, filepath.Base(folder)+".test"), "-test.run", "^$", "-test.bench", names, "-test.skip", elsewhere, //nolint:gosec // constants
			"-test.benchmem", "-test.benchtime", span, "-test.count", strconv.Itoa(rounds))
		test.Dir, test.Stderr = folder, os.Stderr
		one, err := test.Output()
		if err != nil {
			return nil, fmt.Errorf("benchmarks of %s: %w:\n%s", folder, err, one)
		}
		output = append(output, one...)
	}
	return output, nil
}

// The benchmarks that compare refers to take turns, because the machine's speed changes.
const (
	comparedNames = "^BenchmarkDecided$|^Benchmark(DecideWithExceptions|TenGlobs|Users|Marks)$/^(0|100000|usual|a_user_by_a_remembered_token|a_user_by_header|a_digest_of_the_token|no_mark|a_mark)$"
	comparedSpan  = "100ms"
)

var comparedPackages = []string{"./engine", "./internal/metrics", "./rules", "./bench/allocations"}

// benchmark is one benchmark with the figures of all runs, by their units.
type benchmark struct {
	name    string
	figures map[string][]float64
}

func (b *benchmark) median(unit string) string {
	v := stats.Of(b.figures[unit])
	if !v.Measured() {
		return ""
	}
	return strconv.FormatFloat(v.Median, 'f', -1, 64)
}

// compare adds the figures that goals refer to. It is an error if a chosen benchmark is missing.
func compare(p *report.Part, list []*benchmark, chosen *regexp.Regexp) (missing error) {
	times := func(name string) []float64 {
		for _, b := range list {
			if b.name == name {
				return b.figures["ns/op"]
			}
		}
		if chosen.MatchString(name) {
			missing = errors.Join(missing, fmt.Errorf("there is no benchmark %q", name))
		}
		return nil
	}
	// more returns how much longer a benchmark takes than the others together.
	more := func(with string, without ...string) *stats.Value {
		differences := slices.Clone(times(with))
		for _, name := range without {
			other := times(name)
			differences = differences[:min(len(differences), len(other))]
			for i := range differences {
				differences[i] -= other[i]
			}
		}
		v := stats.Of(differences)
		return &v
	}
	metrics := stats.Of(times("internal/metrics Decided"))
	p.FigureIn(" ns", "an exception that nobody meets, among 100,000", more("engine DecideWithExceptions/100000", "engine DecideWithExceptions/0"))
	p.FigureIn(" ns", "metrics of a decision with its rule", &metrics)
	globs := stats.Of(times("rules TenGlobs/usual"))
	p.FigureIn(" ns", "a condition with ten patterns", &globs)
	p.FigureIn(" ns", "a remembered token, more than a header and a digest of the token",
		more("bench/allocations Users/a_user_by_a_remembered_token", "bench/allocations Users/a_user_by_header", "bench/allocations Users/a_digest_of_the_token"))
	p.FigureIn(" ns", "a mark, more than a decision without one", more("bench/allocations Marks/a_mark", "bench/allocations Marks/no_mark"))
	return missing
}

var processors = regexp.MustCompile(`-\d+$`)

// parse reads the output of go test.
func parse(output []byte, chosen *regexp.Regexp) (list []*benchmark, err error) {
	known := map[string]*benchmark{}
	folder := ""
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 2 && fields[0] == "pkg:" {
			folder = strings.TrimPrefix(fields[1], module)
		}
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := folder + " " + processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		if !chosen.MatchString(name) {
			continue
		}
		b := known[name]
		if b == nil {
			b = &benchmark{name, map[string][]float64{}}
			known[name], list = b, append(list, b)
		}
		for i := 2; i+1 < len(fields); i += 2 {
			n, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", lines.Text(), err)
			}
			b.figures[fields[i+1]] = append(b.figures[fields[i+1]], n)
		}
	}
	return list, nil
}
