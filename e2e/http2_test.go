package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// field is one header field of an HTTP/2 request, in any form.
type field struct{ name, value string }

// h2Request is an HTTP/2 request in frames, valid or not.
type h2Request struct {
	fields   []field
	body     string
	trailers []field
	// piece is the number of bytes of the encoded fields in each frame; 0 for all.
	piece int
}

// h2Client is an HTTP/2 connection as an attacker uses it: it sends what it gets, and keeps
// no rules.
type h2Client struct {
	conn    net.Conn
	framer  *h2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
}

// newH2Client begins HTTP/2 on a connection.
func newH2Client(conn net.Conn) *h2Client {
	c := &h2Client{conn: conn, framer: h2.NewFramer(conn, conn)}
	c.encoder = hpack.NewEncoder(&c.block)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	// The gateway may close the connection at any time: then reading fails, too.
	_, _ = io.WriteString(conn, h2.ClientPreface)
	_ = c.framer.WriteSettings()
	return c
}

// encode returns the encoded fields. Only a connection's own goroutine may call it.
func (c *h2Client) encode(fields []field) []byte {
	c.block.Reset()
	for _, f := range fields {
		// A bytes.Buffer does not fail.
		_ = c.encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value})
	}
	return bytes.Clone(c.block.Bytes())
}

// send sends a request on a stream. It returns an error if the gateway has closed the
// connection.
func (c *h2Client) send(stream uint32, r h2Request) error {
	noBody, noTrailers := r.body == "", len(r.trailers) == 0
	if err := c.headers(stream, c.encode(r.fields), r.piece, noBody && noTrailers); err != nil {
		return err
	}
	if !noBody {
		if err := c.framer.WriteData(stream, noTrailers, []byte(r.body)); err != nil {
			return err
		}
	}
	if noTrailers {
		return nil
	}
	return c.headers(stream, c.encode(r.trailers), r.piece, true)
}

// headers sends a block of encoded fields in frames of a piece each.
func (c *h2Client) headers(stream uint32, block []byte, piece int, isEnd bool) error {
	if piece == 0 {
		piece = 16 << 10 // the largest frame that a peer must accept
	}
	first := min(piece, len(block))
	err := c.framer.WriteHeaders(h2.HeadersFrameParam{StreamID: stream, BlockFragment: block[:first], EndStream: isEnd, EndHeaders: first == len(block)})
	for block = block[first:]; err == nil && len(block) > 0; {
		next := min(piece, len(block))
		err = c.framer.WriteContinuation(stream, next == len(block), block[:next])
		block = block[next:]
	}
	return err
}

// answer returns the stream and the status of the next final answer. It returns an error if
// the gateway resets a stream, or ends the connection.
func (c *h2Client) answer() (stream uint32, status int, err error) {
	for {
		frame, err := c.framer.ReadFrame()
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
				_ = c.framer.WriteSettingsAck() // fails as reading does
			}
		case *h2.PingFrame:
			if !frame.IsAck() {
				_ = c.framer.WritePing(true, frame.Data) // as above
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
