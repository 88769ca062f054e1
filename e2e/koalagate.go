package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

// Koalagate is one instance of the service.
type Koalagate struct {
	*Program
	GRPC, HTTP, Admin string // addresses
}

// Build builds the service into a file. With race it finds data races.
func (s *Stage) Build(file string, race bool) error {
	args := []string{"build", "-o", file}
	if race {
		args = append(args, "-race")
	}
	c := exec.Command("go", append(args, "./cmd/koalagate")...)
	c.Dir = s.root
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building koalagate: %w\n%s", err, out)
	}
	return nil
}

// Koalagate starts an instance on free ports, and waits until it is ready.
// Env holds `KOALAGATE_…=…`, args what follows `serve`.
func (s *Stage) Koalagate(binary string, env []string, args ...string) (*Koalagate, error) {
	k, err := s.Serve(binary, env, args...)
	if err != nil {
		return nil, err
	}
	return k, eventually(k.Program, k.ready)
}

// Serve starts an instance on free ports, and waits for nothing.
func (s *Stage) Serve(binary string, env []string, args ...string) (*Koalagate, error) {
	args = append([]string{"serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"}, args...)
	p, err := s.start("koalagate", binary, env, args...)
	return &Koalagate{Program: p}, err
}

// ready reads from the log where the instance listens, and asks it whether it
// is ready.
func (k *Koalagate) ready() error {
	if k.Admin == "" && !k.readAddresses() {
		return errors.New("it has not said where it serves")
	}
	status, err := k.Readyz()
	if err == nil && !status.Ready {
		err = errors.New("it is not ready: " + status.Reason)
	}
	return err
}

func (k *Koalagate) readAddresses() bool {
	for line := range strings.Lines(k.Log()) {
		var said struct{ Msg, GRPC, HTTP, Admin string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "serving" {
			k.GRPC, k.HTTP, k.Admin = said.GRPC, said.HTTP, said.Admin
			return true
		}
	}
	return false
}

// Readiness is what /readyz says.
type Readiness struct {
	Ready      bool   `json:"ready"`
	Reason     string `json:"reason"`
	Generation int    `json:"generation"`
	LastError  string `json:"last_error"`
	Store      string `json:"store"`
	StoreError string `json:"store_error"`
}

// Readyz asks the instance whether it is ready, and by what rules it decides.
func (k *Koalagate) Readyz() (Readiness, error) {
	var r Readiness
	body, err := get("http://" + k.Admin + "/readyz")
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(body, &r)
}

// get fetches a page of any status.
func get(url string) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
