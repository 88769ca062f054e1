package apiclient

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/koalagate/koalagate/internal/admin"
)

// Target is a page of the admin address of a running instance.
type Target struct {
	// Address is host:port or unix:/path. Without a host, or with an unspecified one
	// such as 0.0.0.0, it is this machine.
	Address string
	// Path is /readyz or /healthz.
	Path string
	// TLS is the configuration of the connection; nil for plain text.
	TLS *tls.Config
}

// maxPage is the maximum number of bytes that Check reads of a page.
const maxPage = 64 << 10

// Check requests a page, and returns an error unless the answer is 200. The error
// contains the reason from /readyz, or what to do. The deadline of ctx applies to the
// whole check.
func Check(ctx context.Context, t Target) error {
	resp, err := t.send(ctx, http.MethodGet, t.Path, http.NoBody, func(http.Header) {})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil {
		return fmt.Errorf("reading %s from %s: %w", t.Path, t.Address, err)
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var status admin.Status
	if json.Unmarshal(body, &status) == nil && status.Reason != "" {
		return fmt.Errorf("not ready: %s", status.Reason)
	}
	return fmt.Errorf("%s from %s: %s: %.200s", t.Path, t.Address, resp.Status, strings.TrimSpace(string(body)))
}

// cause returns the error without the URL, which has a placeholder as its host.
func cause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// checkRemedy returns what to do about an error of a request, or "".
func checkRemedy(err error) string {
	var alert *net.OpError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return "; is koalagate running, and is this its admin_addr?"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "; it does not use TLS: admin_tls_cert is not set there"
	case errors.As(err, &alert) && alert.Op == "remote error": // an alert of TLS
		return "; with admin_tls_client_ca it requires --cert and --key"
	}
	return ""
}
