package envoy

import "encoding/binary"

// headerBytes is the length of the header of an HTTP/2 frame.
const headerBytes = 9

// The frame types and flags of HTTP/2 that bounds depend on (RFC 9113, section 6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	frameGoAway       = 0x7
	frameContinuation = 0x9

	flagEndStream = 0x1 // of DATA and HEADERS
	flagAck       = 0x1 // of SETTINGS
)

// frame is the header of an HTTP/2 frame.
type frame struct {
	kind, flags byte
	stream      uint32
	length      int // of the payload, in bytes
}

func (f frame) has(flag byte) bool { return f.flags&flag != 0 }

// frameScanner finds the frame headers in one direction of a connection. It keeps its
// position between calls, because reads and writes end anywhere in a frame.
type frameScanner struct {
	skip   int // bytes until the next header
	header [headerBytes]byte
	have   int // bytes of header that have arrived
}

// next returns the next frame that begins in b and the bytes after its header. ok is
// false if b ends first.
func (s *frameScanner) next(b []byte) (f frame, rest []byte, ok bool) {
	skipped := min(s.skip, len(b))
	s.skip -= skipped
	b = b[skipped:]
	if s.have == 0 && len(b) >= headerBytes { // the usual case needs no copy
		f = frameOf((*[headerBytes]byte)(b))
		s.skip = f.length
		return f, b[headerBytes:], true
	}
	n := copy(s.header[s.have:], b)
	s.have += n
	if s.have < headerBytes {
		return frame{}, nil, false
	}
	s.have = 0
	f = frameOf(&s.header)
	s.skip = f.length
	return f, b[n:], true
}

// frameOf reads the header of a frame.
func frameOf(h *[headerBytes]byte) frame {
	return frame{
		kind: h[3], flags: h[4],
		stream: binary.BigEndian.Uint32(h[5:]) &^ (1 << 31), // without the reserved bit
		length: int(h[0])<<16 | int(h[1])<<8 | int(h[2]),
	}
}
