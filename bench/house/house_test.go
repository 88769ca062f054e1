package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// shop is a small tree to count.
const shop = "testdata/shop"

// equal compares a result with what the test wants.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(file{}, change{}, span{}, position{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestTreeHasTheProductAndItsLines(t *testing.T) {
	files, err := readTree(shop)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "files", files, []file{
		{"counters/counters.go", 16},
		{"counters/page.tsx", 1},
		{"counters/take.lua", 2},
		{"rules/rules.go", 16},
		{"shop.go", 11},
	})
	h := house{files: files}
	lines, goFiles, few := h.sizes()
	equal(t, "lines", lines, map[string]int{"Go": 43, "Lua": 2, "TypeScript": 1})
	equal(t, "files of Go, and small ones", []int{goFiles, few}, []int{3, 3})
}

func TestGroups(t *testing.T) {
	for name, want := range map[string]string{
		"koalagate.go": ".", "engine/plan.go": "engine", "cmd/koalagate/main.go": "cmd",
		"internal/store/redis/lua/plan.lua": "internal/store", "internal/app/app.go": "internal/app",
	} {
		equal(t, name, (&file{name: name}).group(), want)
	}
}

func TestBranchesAreLinesThatAskAMethod(t *testing.T) {
	m, err := loadModule(t.Context(), shop)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "branches", m.branches(), map[string]int{"counters/counters.go": 2, "rules/rules.go": 1})
}

// The block of a branch that was not taken uses one more type.
func TestTypesAreThoseOfExecutedBlocks(t *testing.T) {
	m, err := loadModule(t.Context(), shop)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(shop, "shop.go"))
	if err != nil {
		t.Fatal(err)
	}
	// line returns the block that is the line with a text.
	line := func(text string) span {
		n := 1 + bytes.Count(source[:bytes.Index(source, []byte(text))], []byte("\n"))
		return span{position{n, 1}, position{n + 1, 1}}
	}
	taken := map[span]bool{line("if n > 0"): true, line("return r.Price"): true}
	equal(t, "types", m.typesBetween(blocks{"shop.go": taken}), []string{"rules.Price", "rules.Rule"})
	taken[line("var unused")] = true
	equal(t, "types of both branches", m.typesBetween(blocks{"shop.go": taken}), []string{"rules.Price", "rules.Rule", "rules.Unused"})
	equal(t, "types of nothing", m.typesBetween(nil), []string(nil))
}

func TestBlocksOfTheRequest(t *testing.T) {
	const module = "example.com/shop"
	profile := func(lines ...string) blocks {
		return readProfile("mode: atomic\n"+strings.Join(lines, "\n")+"\n", module)
	}
	way, once, front, idle := "/rules/rules.go:31.30,32.24 1 2", "/rules/rules.go:35.2,35.10 1 1", "/shop.go:16.2,17.3 1 1", "/shop.go:20.2,20.3 1 0"
	requests := []blocks{
		profile(module+way, module+once, module+front, module+idle, "example.com/other"+way, module+"/bench/main.go:1.1,1.2 1 1"),
		profile(module+way, module+front),
	}
	equal(t, "blocks", executedIn(requests, []blocks{{}, profile(module + front)}), blocks{
		"rules/rules.go": {span{position{31, 30}, position{32, 24}}: true},
	})
}

func TestCallsAreThoseOfTheDoorAndOfItsSender(t *testing.T) {
	const module = "example.com/shop"
	stack := func(state string, functions ...string) string {
		const frame = "(0x1, {0x2?, ...})\n\t/src/a.go:1 +0x2\n"
		return "goroutine 7 [" + state + "]:\n" + strings.Join(functions, frame) + frame + "created by " + module + "/envoy.serve in goroutine 1\n\t/src/b.go:3 +0x4"
	}
	redis := "github.com/redis/go-redis/v9.(*Client).Process"
	direct := stack("IO wait", redis, module+"/internal/store/redis.(*Store).Try", module+"/extauthz.(*check).Answer", module+"/internal/wire.handle", "google.golang.org/grpc.serve")
	other := stack("IO wait", redis, module+"/internal/audit.read")
	equal(t, "one stack", callsOf(other+"\n\n"+direct, module), []string{"internal/wire.handle", "extauthz.(*check).Answer", "internal/store/redis.(*Store).Try"})
	sender := stack("IO wait", redis, module+"/internal/store/redis.(*Batcher).fly.func1")
	waits := stack("select", module+"/internal/store/redis.(*Batcher).Send", module+"/extauthz.(*check).Answer")
	equal(t, "two stacks", callsOf(sender+"\n\n"+waits, module), []string{"extauthz.(*check).Answer", "internal/store/redis.(*Batcher).Send", "internal/store/redis.(*Batcher).fly.func1"})
	equal(t, "no door", callsOf(other, module), []string(nil))
}

func TestFilesOfAScript(t *testing.T) {
	sources := map[string]string{"plan.lua": "one\ntwo\n", "leak.lua": "three\n", "write.lua": "four\nfive\n", "fleet.lua": "six\n"}
	script := sources["plan.lua"] + sources["leak.lua"] + sources["write.lua"]
	for lines, want := range map[string][]string{"1 2": {"plan.lua"}, "2 5": {"plan.lua", "write.lua"}, "3": {"leak.lua"}, "": nil} {
		var numbers []int
		for text := range strings.FieldsSeq(lines) {
			var n int
			if _, err := fmt.Sscan(text, &n); err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, n)
		}
		if got := filesOf(script, numbers, sources); !slices.Equal(got, want) {
			t.Errorf("lines %q: %q, want %q", lines, got, want)
		}
	}
}

// repository returns a new repository, and a function that adds a line to some of its files, and
// commits them.
func repository(t *testing.T) (dir string, commit func(files ...string)) {
	t.Helper()
	dir = t.TempDir()
	if _, err := git(t.Context(), dir, "init", "-q"); err != nil {
		t.Fatal(err)
	}
	return dir, func(files ...string) {
		t.Helper()
		for _, name := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			text, _ := os.ReadFile(path)
			if err := os.WriteFile(path, append(text, "changed\n"...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"add", "-A"}, {"-c", "user.name=shop", "-c", "user.email=shop@example.com", "commit", "-q", "-m", "change"}} {
			if _, err := git(t.Context(), dir, args...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestChangeOfACommit(t *testing.T) {
	dir, commit := repository(t)
	commit("rules/rule.go", "rules/rule_test.go", "store/lua/take.lua", "doors/README.md", "doors/door_test.go")
	commit("rules/rule.go", "rules/rule_test.go", "store/lua/take.lua", "doors/soap/server.go", "doors/door.go",
		"bench/load.go", "internal/store/storetest/run.go", "docs/page.md", "store/testdata/old.lua")
	commit("rules/rule.go")
	want := change{
		product: []string{"rules/rule.go", "store/lua/take.lua"},
		own:     []string{"doors/door.go", "doors/soap/server.go"},
		support: []string{"bench/load.go", "internal/store/storetest/run.go", "store/testdata/old.lua"},
	}
	for revision, want := range map[string]change{
		"HEAD~1": want, "HEAD~2..HEAD~0": want, "HEAD": {product: []string{"rules/rule.go"}},
	} {
		got, err := changeOf(t.Context(), dir, revision)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, revision, *got, want)
	}
	if _, err := changeOf(t.Context(), dir, "absent"); err == nil {
		t.Error("a commit that does not exist has no error")
	}
}

// What the product has now is what it had, and what the commits of each subject added.
func TestGrowthBySubjects(t *testing.T) {
	dir, commit := repository(t)
	head := func() string {
		lines, err := git(t.Context(), dir, "rev-parse", "--short=8", "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		return lines[0]
	}
	commit("rules/rule.go", "store/lua/take.lua", "docs/page.go")
	base := head()
	commit("rules/rule.go", "rules/rule_test.go", "page/page.tsx")
	first := head()
	commit("rules/rule.go", "bench/load.go")
	if err := os.Rename(filepath.Join(dir, "rules"), filepath.Join(dir, "limits")); err != nil {
		t.Fatal(err)
	}
	commit("limits/rule.go")
	last := head()
	list := filepath.Join(t.TempDir(), "growth.txt")
	if err := os.WriteFile(list, []byte("# subjects\nsince "+base+"\nlimits: "+first+" "+last+"\nsoap:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := growthOf(t.Context(), dir, list)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "table", table(all), "| lines of code | commits | Go | Lua | TypeScript |\n| --- | --- | --- | --- | --- |\n"+
		"| at "+base+" |  | 1 | 1 | 0 |\n| limits | 2 | 2 | 0 | 1 |\n| soap |  | 0 | 0 | 0 |\n| everything else | 1 | 1 | 0 | 0 |\n| now |  | 4 | 1 | 1 |\n")
}

func TestListsOfSubjects(t *testing.T) {
	for text, want := range map[string]string{
		"limits: a\n":                   "no line: since COMMIT",
		"since a\nlimits b\n":           "has no subject",
		"since a\nlimits: b\nsoap: b\n": "commit b belongs to \"limits\" and to \"soap\"",
	} {
		if _, _, _, err := readSubjects(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want an error with %s", text, err, want)
		}
	}
}
