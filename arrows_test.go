package koalagate_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/koalagate/koalagate"
	redis  = "github.com/redis/go-redis"
)

// doorImports is what every door may know of ours.
var doorImports = []string{"engine", "mapping", "rules"}

// arrows says for each room which other rooms it may import. A room that is
// missing here fails the test: whoever builds one decides its arrows.
var arrows = map[string][]string{
	"rules":           nil,
	"store":           nil,
	"store/storetest": {"store"},
	"config":          nil,
	"metrics":         nil,
	"ration":          nil,
	"envoy":           nil,
	"wire":            nil,
	"wire/wiretest":   nil,
	"engine":          {"rules", "store"},
	"mapping":         {"rules"},
	"trace":           {"engine", "rules"},
	"reload":          {"rules"},
	"publish":         {"rules"},
	"extauthz":        append([]string{"wire"}, doorImports...),
	"ratelimit":       append([]string{"wire"}, doorImports...),
	"nginx":           append([]string{"ration"}, doorImports...),
	"koala":           append([]string{"ration"}, doorImports...),
	"middleware":      doorImports,
	"admin":           {"engine", "mapping", "metrics", "publish", "reload"},
	".":               {"engine", "ration", "reload", "rules", "store"}, // wires for programs what cmd wires for the service
}

// apart are the packages that no room imports: programs, tests and
// measurements, which may know all.
var apart = []string{"cmd", "e2e", "bench", "examples"}

// speaksRedis are the rooms that may import the Redis client.
var speaksRedis = []string{"store", "publish", "e2e", "bench"}

func TestArrowsBetweenTheRooms(t *testing.T) {
	imports := importsOfRooms(t)
	if len(imports) < 8 {
		t.Fatalf("found %d rooms; the module has more", len(imports))
	}
	for room, paths := range imports {
		allowed, known := arrows[room]
		free := slices.Contains(apart, firstOf(room))
		if !known && !free {
			t.Errorf("%s: a room without arrows; say in arrows_test.go and .golangci.yml what it may import", room)
			continue
		}
		for _, path := range paths {
			imported, ours := strings.CutPrefix(path, module+"/")
			if ours && !free && !slices.Contains(allowed, imported) {
				t.Errorf("%s imports %s; of ours it may import %q (ARCHITECTURE.md, Rooms)", room, imported, allowed)
			}
			if strings.HasPrefix(path, redis) && !slices.Contains(speaksRedis, firstOf(room)) {
				t.Errorf("%s imports %s; only the store talks to Redis", room, path)
			}
		}
	}
}

// importsOfRooms reads what the packages below the root import, tests apart:
// those may reach over. It reads the files itself, not through `go list`, so
// that the cache of go test knows what the result depends on.
func importsOfRooms(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		room := filepath.ToSlash(filepath.Dir(path))
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[room] = append(imports[room], imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

func firstOf(room string) string {
	first, _, _ := strings.Cut(room, "/")
	return first
}
