package hostile_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// addressRules count by the client's address.
const addressRules = `
[rules]
rule : [count] [ip=+] [time=3600; count=1000] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// onUnixSocket makes a sample listen on a Unix socket, too: nginx, Caddy and HAProxy get a
// second address, and Envoy a socket instead of its port.
func onUnixSocket(h *rig.Fixture, name string, k *e2e.Koalagate, app *e2e.App) (g *e2e.Gateway, socket string) {
	h.Helper()
	socket = filepath.Join(h.Dir, strings.ReplaceAll(name, " ", "-")+".sock")
	const port0 = "socket_address: { address: 127.0.0.1, port_value: 10000 }"
	envoyPairs := [][2]string{
		{"port_value: 9901 ", "port_value: 0 "},
		{"port_value: 8000 ", "port_value: " + rig.Port(app.Address) + " "},
		{port0, "pipe: { path: \"" + socket + "\" }"},
	}
	switch name {
	case "envoy":
		g = rig.Must(h.Stage.EnvoySample("envoy/envoy.yaml", append(envoyPairs, [2]string{"port_value: 9191 ", "port_value: " + rig.Port(k.GRPC) + " "})...))(h.T)
	case "envoy over HTTP":
		g = rig.Must(h.Stage.EnvoySample("envoy/envoy-http.yaml", append(envoyPairs,
			[2]string{"port_value: 9981 ", "port_value: " + rig.Port(k.HTTP) + " "}, [2]string{"port_value: 9982 ", "port_value: " + rig.Port(k.Admin) + " "})...))(h.T)
	case "nginx", "accel":
		file := map[string]string{"nginx": "nginx/nginx.conf", "accel": "nginx/accel.conf"}[name]
		g = rig.NginxWith(file, [2]string{"listen 127.0.0.1:8080;", "listen 127.0.0.1:8080; listen unix:" + socket + ";"})(h, app, k.HTTP)
	case "caddy":
		g = rig.CaddyWith([2]string{"bind 127.0.0.1\n", "bind 127.0.0.1 unix/" + socket + "\n"})(h, app, k.HTTP)
	case "haproxy":
		g = rig.HAProxyWith([2]string{"bind 127.0.0.1:8080\n", "bind 127.0.0.1:8080\n    bind unix@" + socket + "\n"})(h, app, k.HTTP)
	}
	// A gateway may accept connections at its port before it does at the socket.
	if err := g.Until(func() error {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			err = conn.Close()
		}
		return err
	}); err != nil {
		h.Fatal(err)
	}
	return g, socket
}

// Clients of a gateway that listens on a Unix socket have no address. If rules count by
// address, their requests are refused, whatever address they claim, and the log says so.
func TestHostileUnixSocketsHaveNoAddress(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	k := h.Koalagate("--rules", h.File("rules.conf", addressRules))
	for _, name := range []string{"envoy", "envoy over HTTP", "nginx", "accel", "caddy", "haproxy"} {
		app := h.App()
		_, socket := onUnixSocket(h, name, k, app)
		for _, claim := range []string{
			"", "X-Forwarded-For: 192.0.2.1", "X-Real-IP: 192.0.2.1", "X-Forwarded-For: 192.0.2.1\r\nX-Real-IP: 192.0.2.2",
			"Forwarded: for=192.0.2.1", "X-Envoy-External-Address: 192.0.2.1", "X-Koala-Param-Ip: 192.0.2.1", "Connection: X-Real-IP, X-Forwarded-For",
		} {
			status := sendUnix(t, socket, "GET /a HTTP/1.1\r\nHost: shop.example\r\n"+claim)
			if status < 400 {
				t.Errorf("%s, %q: %d; want a refusal", name, claim, status)
			}
		}
		if n := app.Reached(); n != 0 {
			t.Errorf("%s: %d requests without an address reached the application", name, n)
		}
		if status := sendUnix(t, socket, "GET /healthz HTTP/1.1\r\nHost: shop.example\r\n"); status != http.StatusOK {
			t.Errorf("%s: /healthz is %d; want 200", name, status)
		}
	}
	for _, line := range []string{
		"request without an address of the client", "lacks a usable X-Forwarded-For", "lacks a usable X-Real-IP",
	} {
		if !strings.Contains(k.Log(), line) {
			t.Errorf("the log does not say %q", line)
		}
	}
}

// sendUnix sends a request, whose last line may be empty, to a Unix socket.
func sendUnix(t *testing.T, socket, request string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(strings.TrimSuffix(request, "\r\n") + "\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return resp.StatusCode
}
