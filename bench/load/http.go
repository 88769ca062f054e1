package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/bench/traffic"
)

// The requests of HTTP callers.
const (
	authRequest = "GET /v1/auth-request?%s HTTP/1.1\r\nHost: gate\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\n" +
		"X-Real-IP: 198.51.100.7\r\nX-Forwarded-Host: shop.example\r\nX-Forwarded-Proto: https\r\n\r\n"
	koalaBrowse = "GET /rule/browse?_writeThrough=yes&%s HTTP/1.1\r\nHost: gate\r\n\r\n"
)

// askHTTP returns callers of an HTTP door, each with its own persistent connection, as
// gateways have them. It writes and reads the bytes directly, because a caller as
// expensive as the service would hide the service's cost.
func askHTTP(ctx context.Context, address, request string, t traffic.Kind, callers int) ([]ask, func(), error) {
	requests := make([][]byte, traffic.Identities)
	for i, descriptors := range t.Requests() {
		query := url.Values{}
		for _, d := range descriptors {
			query.Set(d.Name, d.Value)
		}
		requests[i] = fmt.Appendf(nil, request, query.Encode())
	}
	var open []net.Conn
	end := func() {
		for _, c := range open {
			_ = c.Close() // no call is in progress
		}
	}
	asks := make([]ask, callers)
	for i := range asks {
		conn, err := dial(ctx, address)
		if err != nil {
			end()
			return nil, nil, err
		}
		open = append(open, conn)
		in, next := bufio.NewReader(conn), turns(i, callers)
		asks[i] = func(ctx context.Context) (bool, error) {
			deadline, _ := ctx.Deadline()
			if err := conn.SetDeadline(deadline); err != nil {
				return false, err
			}
			if _, err := conn.Write(requests[next()]); err != nil {
				return false, err
			}
			return readAnswer(in)
		}
	}
	return asks, end, nil
}

// readAnswer reads an HTTP/1.1 answer and reports whether it refuses. Koala's API always
// answers 200 with the decision in the body: its refusals are not detected here.
func readAnswer(in *bufio.Reader) (refused bool, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	const status, statusEnd = len("HTTP/1.1 "), len("HTTP/1.1 200")
	if len(line) < statusEnd {
		return false, fmt.Errorf("the answer starts with %q; want HTTP/1.1 and a status", line)
	}
	code := string(line[status:statusEnd])
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		name, value, found := strings.Cut(strings.TrimSpace(string(line)), ":")
		if !found {
			break
		}
		if strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return false, err
			}
		}
	}
	if length < 0 {
		return false, errors.New("the answer has no Content-Length")
	}
	if _, err := io.CopyN(io.Discard, in, int64(length)); err != nil {
		return false, err
	}
	switch code {
	case "200":
		return false, nil
	case "403", "429":
		return true, nil
	}
	return false, fmt.Errorf("unexpected status %s", code)
}
