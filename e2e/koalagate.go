package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/access"
)

// Koalagate is one instance of the service.
type Koalagate struct {
	*Program
	GRPC, HTTP, Admin string // addresses
	Report            string // its address for reports; "" without
}

// ChangeToken returns the token for changes that the instance made at its admin address, ""
// for none.
func (k *Koalagate) ChangeToken() string {
	token, _ := access.Find(access.Dirs(os.Environ(), ""), k.Admin)
	return token
}

// Build builds the service into a file, with the race detector if race is true. It has `go run`
// do so, which links the same program only once for all packages of tests, as `go build` does not.
func (s *Stage) Build(file string, race bool) error {
	c := exec.Command("go", "run", "-race="+strconv.FormatBool(race), "-exec", "cp", "./cmd/koalagate", file)
	c.Dir = s.root
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building koalagate: %w\n%s", err, out)
	}
	return nil
}

// BuildRelease builds the program into a file as a release has it, for measurements.
func (s *Stage) BuildRelease(file string) error {
	if out, err := exec.Command(s.Path("deploy/build.sh"), file).CombinedOutput(); err != nil {
		return fmt.Errorf("building koalagate: %w\n%s", err, out)
	}
	return nil
}

// Koalagate starts an instance on free ports, and waits until it is ready.
// Env contains settings `KOALAGATE_…=…`, and args the arguments of `serve`.
func (s *Stage) Koalagate(binary string, env []string, args ...string) (*Koalagate, error) {
	k, err := s.Serve(binary, env, args...)
	if err != nil {
		return nil, err
	}
	return k, eventually(k.Program, k.ready)
}

// Serve starts an instance on free ports, without waiting. The system chooses none of them:
// it could give the port of an instance that was killed to another one.
func (s *Stage) Serve(binary string, env []string, args ...string) (*Koalagate, error) {
	own := []string{"serve"}
	for _, address := range []struct {
		flag string
		port int // of the samples
	}{{"--grpc-addr", 9191}, {"--http-addr", 9981}, {"--admin-addr", 9982}} {
		port, err := s.choosePort(address.port)
		if err != nil {
			return nil, err
		}
		own = append(own, address.flag, local(port))
	}
	p, err := s.start("koalagate", binary, env, append(own, args...)...)
	return &Koalagate{Program: p}, err
}

// Listens waits until an instance from Serve has stated its addresses, ready or not.
func (k *Koalagate) Listens() error {
	return eventually(k.Program, func() error {
		if !k.ReadAddresses() {
			return errors.New("no addresses in the log yet")
		}
		return nil
	})
}

// ready reads the instance's addresses from its log, and returns an error unless
// the instance is ready.
func (k *Koalagate) ready() error {
	if k.Admin == "" && !k.ReadAddresses() {
		return errors.New("no addresses in the log yet")
	}
	status, err := k.Readyz()
	if err == nil && !status.Ready {
		err = errors.New("not ready: " + status.Reason)
	}
	return err
}

// ReadAddresses reads the addresses of the instance from its log, and reports whether they
// are there.
func (k *Koalagate) ReadAddresses() bool {
	for line := range strings.Lines(k.Log()) {
		var entry struct {
			Msg, GRPC, HTTP, Admin, Report string
			Message                        string `json:"@message"` // under the name ratelimit
		}
		if json.Unmarshal([]byte(line), &entry) == nil && (entry.Msg == "serving" || entry.Message == "serving") {
			k.GRPC, k.HTTP, k.Admin, k.Report = entry.GRPC, entry.HTTP, entry.Admin, entry.Report
			return true
		}
	}
	return false
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready      bool   `json:"ready"`
	Reason     string `json:"reason"`
	Generation int    `json:"generation"`
	LastError  string `json:"last_error"`
	Store      string `json:"store"`
	StoreError string `json:"store_error"`
}

// Readyz returns the instance's readiness and rules.
func (k *Koalagate) Readyz() (Readiness, error) {
	var r Readiness
	body, err := get("http://" + k.Admin + "/readyz")
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(body, &r)
}

// get returns the body of a page, whatever its status.
func get(url string) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
