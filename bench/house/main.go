// House counts what slows down whoever changes koalagate: how many places one request
// crosses, and in how many one idea lives.
//
//	go run ./bench/house                counts, and prints the report
//	go run ./bench/house -o FILE        also writes it: `make house` writes docs/reports/house.md
//	go run ./bench/house -change REV    lists the files that a commit, or A..B, changes
//	go run ./bench/house -growth FILE   counts the lines that commits add, by the subjects in FILE
//
// What counts:
//
//   - The product is Go, Lua and TypeScript that users run: not bench, deploy, docs, e2e,
//     examples, nor tests, their data and the packages that serve tests alone (storetest,
//     wiretest, xdstest).
//   - A line has code: lines with nothing but a comment are none. A small file is a file of
//     Go with fewer than 60 lines of code.
//   - A request is the one that ARCHITECTURE.md follows: a CheckRequest of Envoy on gRPC,
//     which one rule with a parameter and a route allows, in a service with default
//     settings, whose Redis is real and knows script and counter already. The service is
//     built with coverage counters, which are read before and after the request.
//   - A file of the request is a file of Go with a block that ran in every of 30 rounds, and
//     in none of 30 calls of gRPC's health service: what such a call runs, too, belongs to
//     the front, and what only some rounds run to the background. A file of Lua counts if
//     the debugger of Redis stops in it.
//   - A type of the request is a type of the product that a block of it, or the signature of
//     its function, uses in another package: by its name, or by a call of its method.
//   - A call of the request is a function on the stack while Redis has the command, from the
//     one that gRPC calls to the last one before the client of Redis. A goroutine that sends
//     for another one adds its own functions.
//   - A place asks a method of counting what it can do if it is a line that compares a value
//     with a constant of a type named Method, or has a case for one.
//   - A change touches the files of the product that a commit changes. Files in a folder
//     that had none of the product are a package of its own.
//   - A commit adds the lines of code that the product has more after it than before it, so
//     that moved lines are none.
package main

import (
	"context"
	_ "embed" // for the counts of changes
	"flag"
	"fmt"
	"os"
)

// changes are counts of changes that were made to be counted, on branches of their own.
//
//go:embed changes.md
var changes string

func main() {
	report := flag.String("o", "", "the `file` that receives the report; without it the report is only printed")
	revision := flag.String("change", "", "list the files that this `commit`, or range A..B, changes, and count nothing else")
	subjects := flag.String("growth", "", "count what commits add, by the subjects that this `file` lists, such as bench/house/growth.txt, and nothing else")
	flag.Parse()
	if err := run(context.Background(), *report, *revision, *subjects); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, report, revision, subjects string) error {
	if subjects != "" {
		all, err := growthOf(ctx, ".", subjects)
		if err == nil {
			fmt.Print(table(all))
		}
		return err
	}
	if revision != "" {
		c, err := changeOf(ctx, ".", revision)
		if err == nil {
			fmt.Print(c)
		}
		return err
	}
	text, err := count(ctx, ".")
	if err != nil {
		return err
	}
	fmt.Print(text)
	if report == "" {
		return nil
	}
	return os.WriteFile(report, []byte(text), 0o600)
}

// count counts everything in a tree, and returns the report.
func count(ctx context.Context, root string) (string, error) {
	h := new(house)
	var err error
	if h.files, err = readTree(root); err != nil {
		return "", err
	}
	if h.module, err = loadModule(ctx, root); err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "house")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	if h.way, err = takeWay(ctx, h.module, folder); err != nil {
		return "", err
	}
	return h.report(ctx), nil
}
