package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The linker leaves out the methods that nothing calls. It keeps all methods of all types if any code
// looks for methods by a name that is known only at run time, as text/template and some
// libraries do: the program was 11 MB larger then, and each instance took 5 MB more.
func TestUnusedMethodsAreLeftOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "koalagate")
	if out, err := exec.Command("../../deploy/build.sh", path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Go programs contain the names of their functions, for stack traces.
	if used := "redis/v9.(*baseClient).process"; !bytes.Contains(program, []byte(used)) {
		t.Errorf("the program lacks %s: this test looks for the wrong names", used)
	}
	for _, unused := range []string{"redis/v9.cmdable.GeoSearchStore", "redis/v9.cmdable.TSMRange", "text/template.(*state).evalField"} {
		if bytes.Contains(program, []byte(unused)) {
			t.Errorf("the program has %s: go build -ldflags=-dumpdep names the functions that look for methods (ReflectMethod)", unused)
		}
	}
}
