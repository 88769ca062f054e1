package reload

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestStandardInputIsReadAsAFile(t *testing.T) {
	dir := t.TempDir()
	result := filepath.Join(dir, "result.conf")
	write(t, result, "[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n")
	text := "[rules]\nrule : [count] [act=a; uid=+] [time=60; count=5] [result=2; return=201]\n"
	set, findings, err := Files{Paths: []string{"-", result}, Stdin: strings.NewReader(text)}.Load()
	if err != nil || len(findings) > 0 || len(set.Rules) != 1 || set.Rules[0].Pos.File != "<stdin>" {
		t.Errorf("got %+v, %v, %v", set, findings, err)
	}
	// Without Stdin, as in a service, "-" is a file, which does not exist.
	if _, _, err := (Files{Paths: []string{"-"}}).Load(); err == nil || !strings.Contains(err.Error(), "open -") {
		t.Errorf("got %v; want a missing file", err)
	}
	broken := errors.New("the pipe is broken")
	if _, _, err := (Files{Paths: []string{"-"}, Stdin: iotest.ErrReader(broken)}).Load(); !errors.Is(err, broken) || !strings.Contains(err.Error(), "<stdin>") {
		t.Errorf("got %v; want %v and the name", err, broken)
	}
}

// endless never ends, and counts the bytes read from it.
type endless int64

func (e *endless) Read(b []byte) (int, error) {
	*e += endless(len(b))
	return len(b), nil
}

func TestEndlessStreamIsReadUpToTheLimit(t *testing.T) {
	const limit = 1 << 16
	var zeros endless
	_, err := readStream(stdinName, &zeros, limit)
	if err == nil || !strings.Contains(err.Error(), "<stdin>: larger than 65536 bytes") {
		t.Errorf("got %v; want that it is too large", err)
	}
	if zeros > limit+1 {
		t.Errorf("%d bytes were read; want at most %d", zeros, limit+1)
	}
	if source, err := readStream(stdinName, strings.NewReader(strings.Repeat("x", limit)), limit); err != nil || len(source.Text) != limit {
		t.Errorf("exactly the limit: %d bytes, %v", len(source.Text), err)
	}
}

// Without this error, each line of the file would be reported as a duplicate.
func TestFileListedTwiceIsAnError(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.conf")
	write(t, file, ruleText(1))
	for name, paths := range map[string][]string{
		"the same path":       {file, file},
		"another spelling":    {file, filepath.Join(dir, ".", "x", "..") + "//a.conf"},
		"file and its folder": {dir, file},
		"the folder":          {dir, dir + "/"},
		"the standard input":  {"-", "-"},
	} {
		_, _, err := Files{Paths: paths, Stdin: strings.NewReader("")}.Load()
		if err == nil || !strings.Contains(err.Error(), "listed twice; remove one") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
