package service

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/koalagate/koalagate/internal/config"
)

// fill writes one and a half times the maximum size of a decision log.
func fill(t *testing.T, path string) (written int64) {
	t.Helper()
	c := config.Default()
	c.DecisionLog, c.DecisionLogMaxSize = path, megabyte
	log, err := openRotated(&c)
	if err != nil {
		t.Fatal(err)
	}
	line := append(bytes.Repeat([]byte("x"), 1<<16-1), '\n')
	for range 24 {
		n, err := log.Write(line)
		if err != nil {
			t.Fatal(err)
		}
		written += int64(n)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return written
}

// A log may be /dev/stdout, a symbolic link to a pipe. Neither may be renamed.
func TestDecisionLogIntoAPipe(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	keep, err := os.OpenFile(pipe, os.O_WRONLY, 0) // so that the reader does not see the end of the pipe before the first line
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, reader) // the count shows whether it failed
		read <- n
	}()
	written := fill(t, link)
	if err := keep.Close(); err != nil {
		t.Fatal(err)
	}
	if n := <-read; n != written {
		t.Errorf("%d bytes arrived through the pipe; want %d", n, written)
	}
	wantNames(t, dir, 2, link)
}

// Of a symbolic link the target is renamed, and the link leads to the new file.
func TestDecisionLogBehindALink(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	link := filepath.Join(dir, "decisions.jsonl")
	if err := os.Symlink(filepath.Join(to, "decisions.jsonl"), link); err != nil {
		t.Fatal(err)
	}
	fill(t, link)
	wantNames(t, dir, 1, link)
	wantNames(t, to, 2, link)
}

// wantNames checks the number of names in a folder, and that link is still a link.
func wantNames(t *testing.T, dir string, want int, link string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != want {
		t.Errorf("%v; want %d names", entries, want)
	}
	if _, err := os.Readlink(link); err != nil {
		t.Error(err)
	}
}
