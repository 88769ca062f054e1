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
)

// The questions of HTTP callers.
const (
	authRequest = "GET /v1/auth-request?%s HTTP/1.1\r\nHost: gate\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\n" +
		"X-Real-IP: 198.51.100.7\r\nX-Forwarded-Host: shop.example\r\nX-Forwarded-Proto: https\r\n\r\n"
	koalaBrowse = "GET /rule/browse?_writeThrough=yes&%s HTTP/1.1\r\nHost: gate\r\n\r\n"
)

// askHTTP has callers ask a door on HTTP, each on a connection of its own, as
// gateways keep them. It writes and reads by hand: a caller that costs as much
// as what it calls would hide it.
func askHTTP(ctx context.Context, address, question string, t traffic, callers int) ([]ask, func(), error) {
	requests := make([][]byte, identities)
	for i, descriptors := range t.requests() {
		query := url.Values{}
		for _, d := range descriptors {
			query.Set(d.name, d.value)
		}
		requests[i] = fmt.Appendf(nil, question, query.Encode())
	}
	var open []net.Conn
	end := func() {
		for _, c := range open {
			_ = c.Close() // nothing is under way
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

// readAnswer reads an answer of HTTP/1.1 and tells whether it refuses. Koala's
// API answers 200 to everything, and says in its body what holds: such a
// refusal is not seen here.
func readAnswer(in *bufio.Reader) (refused bool, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	const status, statusEnd = len("HTTP/1.1 "), len("HTTP/1.1 200")
	if len(line) < statusEnd {
		return false, fmt.Errorf("an answer begins with %q", line)
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
		return false, errors.New("an answer without Content-Length")
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
	return false, fmt.Errorf("an answer has the status %s", code)
}
