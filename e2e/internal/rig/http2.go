package rig

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Field is one header field of an HTTP/2 request, in any form.
type Field struct{ Name, Value string }

// H2Request is an HTTP/2 request in frames, valid or not.
type H2Request struct {
	Fields   []Field
	Body     string
	Trailers []Field
	// Piece is the number of bytes of the encoded fields in each frame; 0 for all.
	Piece int
}

// H2Client is an HTTP/2 connection as an attacker uses it: it sends what it gets, and keeps
// no rules.
type H2Client struct {
	conn    net.Conn
	Framer  *h2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
}

// newH2Client begins HTTP/2 on a connection.
func newH2Client(conn net.Conn) *H2Client {
	c := &H2Client{conn: conn, Framer: h2.NewFramer(conn, conn)}
	c.encoder = hpack.NewEncoder(&c.block)
	c.Framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	// The gateway may close the connection at any time: then reading fails, too.
	_, _ = io.WriteString(conn, h2.ClientPreface)
	_ = c.Framer.WriteSettings()
	return c
}

// encode returns the encoded fields. Only a connection's own goroutine may call it.
func (c *H2Client) encode(fields []Field) []byte {
	c.block.Reset()
	for _, f := range fields {
		// A bytes.Buffer does not fail.
		_ = c.encoder.WriteField(hpack.HeaderField{Name: f.Name, Value: f.Value})
	}
	return bytes.Clone(c.block.Bytes())
}

// send sends a request on a stream. It returns an error if the gateway has closed the
// connection.
func (c *H2Client) send(stream uint32, r H2Request) error {
	noBody, noTrailers := r.Body == "", len(r.Trailers) == 0
	if err := c.headers(stream, c.encode(r.Fields), r.Piece, noBody && noTrailers); err != nil {
		return err
	}
	if !noBody {
		if err := c.Framer.WriteData(stream, noTrailers, []byte(r.Body)); err != nil {
			return err
		}
	}
	if noTrailers {
		return nil
	}
	return c.headers(stream, c.encode(r.Trailers), r.Piece, true)
}

// headers sends a block of encoded fields in frames of a piece each.
func (c *H2Client) headers(stream uint32, block []byte, piece int, isEnd bool) error {
	if piece == 0 {
		piece = 16 << 10 // the largest frame that a peer must accept
	}
	first := min(piece, len(block))
	err := c.Framer.WriteHeaders(h2.HeadersFrameParam{StreamID: stream, BlockFragment: block[:first], EndStream: isEnd, EndHeaders: first == len(block)})
	for block = block[first:]; err == nil && len(block) > 0; {
		next := min(piece, len(block))
		err = c.Framer.WriteContinuation(stream, next == len(block), block[:next])
		block = block[next:]
	}
	return err
}

// answer returns the stream and the status of the next final answer. It returns an error if
// the gateway resets a stream, or ends the connection.
func (c *H2Client) answer() (stream uint32, status int, err error) {
	for {
		frame, err := c.Framer.ReadFrame()
		if err != nil {
			return 0, 0, err
		}
		switch frame := frame.(type) {
		case *h2.MetaHeadersFrame:
			status, err := strconv.Atoi(frame.PseudoValue("status"))
			if err != nil || status < 200 {
				continue // trailers, or an informational answer
			}
			return frame.StreamID, status, nil
		case *h2.SettingsFrame:
			if !frame.IsAck() {
				_ = c.Framer.WriteSettingsAck() // fails as reading does
			}
		case *h2.PingFrame:
			if !frame.IsAck() {
				_ = c.Framer.WritePing(true, frame.Data) // as above
			}
		case *h2.RSTStreamFrame:
			return frame.StreamID, 0, fmt.Errorf("the stream was reset: %v", frame.ErrCode)
		case *h2.GoAwayFrame:
			if frame.ErrCode != h2.ErrCodeNo {
				return 0, 0, fmt.Errorf("the connection ends: %v", frame.ErrCode)
			}
		}
	}
}
