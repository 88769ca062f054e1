package service

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/config"
)

// reportConfig returns settings with an address for reports.
func reportConfig(address string) *config.Config {
	c := config.Default()
	c.GRPCAddr, c.HTTPAddr, c.AdminAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.ReportAddr = address
	return &c
}

func TestReportsHaveASocketOfDatagrams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	abandoned, err := (&net.ListenConfig{}).ListenPacket(t.Context(), unixPackets, path)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := listenAll(t.Context(), reportConfig("unix:"+path), false); err == nil || !strings.HasPrefix(err.Error(), "report_addr: ") {
		l.close()
		t.Fatalf("%v; want an error about the socket of a live process", err)
	}
	if err := abandoned.Close(); err != nil { // its file stays, as that of a killed process
		t.Fatal(err)
	}
	l, err := listenAll(t.Context(), reportConfig("unix:"+path), false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v; want the permissions 0660", info, err)
	}
	if got := packetAddress(l.report); got != "unix:"+path {
		t.Errorf("the address is %q", got)
	}
	l.close()
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket remains after the end")
	}
}

func TestReportsAreOffByDefault(t *testing.T) {
	l, err := listenAll(t.Context(), reportConfig(""), false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if l.report != nil || packetAddress(l.report) != "" {
		t.Errorf("reports are read at %q", packetAddress(l.report))
	}
}

func TestReportsOverUDP(t *testing.T) {
	first, err := listenAll(t.Context(), reportConfig("127.0.0.1:0"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	if l, err := listenAll(t.Context(), reportConfig(packetAddress(first.report)), false); err == nil || !strings.Contains(err.Error(), "another program listens there") {
		l.close()
		t.Errorf("%v; want an error about the port", err)
	}
}
