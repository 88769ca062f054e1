// Package apiclient calls the admin address of a running instance. Every command that
// asks an instance uses it: Check requests a page of health, and Client the API of
// operators.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/koalagate/koalagate/internal/adminapi"
)

// maxDocument is the maximum size of an answer, in bytes: 100,000 exceptions fit.
const maxDocument = 256 << 20

// Client calls the API of one instance.
type Client struct {
	// Target is the admin address; its Path is not used.
	Target Target
	// Token is the bearer token; "" sends none.
	Token string
	// Author is the author of changes in the audit trail.
	Author string
}

// Call requests a path below adminapi.Prefix, with in as its JSON document unless in is
// nil, and decodes the answer into out unless out is nil. The error of an answer other than
// 200 is an *adminapi.Problem. The deadline of ctx applies to the whole call.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader = http.NoBody
	kind := ""
	if in != nil {
		kind = "application/json"
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	text, err := c.exchange(ctx, method, path, kind, body)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the answer from %s does not fit this version of koalagate: %w", c.Target.Address, err)
	}
	return nil
}

// Upload stores a content at a path. The deadline of ctx applies to the whole call.
func (c *Client) Upload(ctx context.Context, path string, content *bytes.Reader) error {
	_, err := c.exchange(ctx, http.MethodPut, path, "application/octet-stream", content)
	return err
}

// Download returns the content at a path. The deadline of ctx applies to the whole call.
func (c *Client) Download(ctx context.Context, path string) ([]byte, error) {
	return c.exchange(ctx, http.MethodGet, path, "", http.NoBody)
}

// exchange sends a request with a body of a type, and returns the document of the answer.
func (c *Client) exchange(ctx context.Context, method, path, kind string, body io.Reader) ([]byte, error) {
	resp, err := c.Target.send(ctx, method, adminapi.Prefix+path, body, c.header(kind))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return nil, fmt.Errorf("reading the answer from %s: %w", c.Target.Address, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, c.problem(resp, text)
	}
	return text, nil
}

// header returns a function that sets the headers of a request with a body of a type,
// "" for none.
func (c *Client) header(kind string) func(http.Header) {
	return func(h http.Header) {
		if kind != "" {
			h.Set("Content-Type", kind)
		}
		if c.Token != "" {
			h.Set("Authorization", "Bearer "+c.Token)
		}
		if c.Author != "" {
			h.Set(adminapi.AuthorHeader, c.Author)
		}
	}
}

// problem returns the error of an answer.
func (c *Client) problem(resp *http.Response, text []byte) error {
	p := new(adminapi.Problem)
	if json.Unmarshal(text, p) == nil && p.Status != 0 && p.Detail != "" {
		return p
	}
	p.Status = resp.StatusCode
	p.Detail = fmt.Sprintf("%s from %s: %.200s", resp.Status, c.Target.Address, strings.TrimSpace(string(text)))
	return p
}

// send sends a request to the admin address. The caller must close the body of the
// answer.
func (t *Target) send(ctx context.Context, method, path string, body io.Reader, header func(http.Header)) (*http.Response, error) {
	transport := &http.Transport{
		TLSClientConfig: t.TLS, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			if path, isUnix := strings.CutPrefix(t.Address, "unix:"); isUnix {
				return d.DialContext(ctx, "unix", path)
			}
			return d.DialContext(ctx, "tcp", t.Address)
		},
	}
	scheme := "http"
	if t.TLS != nil {
		scheme = "https"
	}
	// The admin address accepts localhost as a host name everywhere.
	request, err := http.NewRequestWithContext(ctx, method, scheme+"://localhost"+path, body)
	if err != nil {
		return nil, err
	}
	header(request.Header)
	resp, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("no answer from %s: %w%s", t.Address, cause(err), checkRemedy(err))
	}
	return resp, nil
}
