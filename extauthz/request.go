package extauthz

import (
	"cmp"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/envoyapi"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire"
	"github.com/koalagate/koalagate/rules"
)

// check is one call of the door with the memory that it needs, which is reused.
type check struct {
	server   *Server
	message  message
	question door.Question
	metadata envoyapi.Metadata
	reply    []byte // in wire form
}

// UnmarshalBinary reads a CheckRequest in wire form.
func (c *check) UnmarshalBinary(request []byte) error { return c.message.read(request) }

// fill copies the parts of the message that the mapping needs.
func (c *check) fill() {
	m := &c.message
	c.question.Request = mapping.Request{
		Door: doorname.ExtAuthz, Method: m.method, Path: m.path, Host: m.host, Scheme: m.scheme, Peer: m.peer,
		Headers: m, Context: m.context, Principal: m.principal, SNI: m.sni,
	}
	c.question.Patience = engine.MaxWait // Envoy sends its deadline
	if len(m.metadata)+len(m.routeMetadata) > 0 {
		c.question.Request.Metadata = m.lookup
	}
}

// isGRPC reports whether the client speaks gRPC, by the same test as Envoy.
func (m *message) isGRPC() bool {
	contentType, _ := m.Header("content-type")
	return contentType == "application/grpc" || strings.HasPrefix(contentType, "application/grpc+")
}

// reset drops everything that belongs to the call and keeps the memory, unless the
// reply was unusually large.
func (c *check) reset() {
	const keptReply = 64 << 10
	if cap(c.reply) > keptReply {
		c.reply = nil
	}
	c.server = nil
	c.question.Reset()
	c.metadata.Context = nil
	c.message.reset()
}

// The tags of a CheckRequest and of the messages in it:
// envoy/service/auth/v3/{external_auth,attribute_context}.proto and
// envoy/config/core/v3/{address,base}.proto.
const (
	tagAttributes = 1<<3 | wire.Bytes

	tagSource        = 1<<3 | wire.Bytes
	tagRequest       = 4<<3 | wire.Bytes
	tagContext       = 10<<3 | wire.Bytes
	tagMetadata      = 11<<3 | wire.Bytes
	tagTLS           = 12<<3 | wire.Bytes
	tagRouteMetadata = 13<<3 | wire.Bytes

	tagAddress   = 1<<3 | wire.Bytes
	tagPrincipal = 4<<3 | wire.Bytes

	tagSocketAddress   = 1<<3 | wire.Bytes
	tagPipe            = 2<<3 | wire.Bytes
	tagInternalAddress = 3<<3 | wire.Bytes

	tagSocketHost = 2<<3 | wire.Bytes

	tagHTTP = 2<<3 | wire.Bytes

	tagMethod    = 2<<3 | wire.Bytes
	tagHeaders   = 3<<3 | wire.Bytes
	tagPath      = 4<<3 | wire.Bytes
	tagHost      = 5<<3 | wire.Bytes
	tagScheme    = 6<<3 | wire.Bytes
	tagHeaderMap = 13<<3 | wire.Bytes

	tagRawHeader = 1<<3 | wire.Bytes

	tagKey      = 1<<3 | wire.Bytes // of a map's entry, and of a raw header
	tagValue    = 2<<3 | wire.Bytes
	tagRawValue = 3<<3 | wire.Bytes

	tagSNI = 1<<3 | wire.Bytes
)

// message holds the parts of a CheckRequest that the mapping needs. Any part may be
// missing: Envoy's TCP filter sends no HTTP request at all. Strings may hold any
// bytes, as client headers do; the protobuf library would reject them.
//
// Method, path, host and scheme come from the request's own fields and never from
// its pseudo headers, which Envoy's allowed_headers can remove. source.address is
// the peer of the connection, regardless of X-Forwarded-For.
type message struct {
	method, path, host, scheme string
	peer, principal, sni       string

	headers []rules.Header // the last entry with a name counts
	raw     []rules.Header // as the client sent them; they replace headers if isRaw
	isRaw   bool
	context map[string]string

	metadata, routeMetadata []byte // in wire form, since few rules read it

	text string // the whole request, which all strings are parts of
}

// read reads a request as the protobuf library does and skips unused fields.
func (m *message) read(request []byte) error {
	m.text = string(request)
	f := wire.Read(request)
	for f.Next() {
		if f.Tag == tagAttributes {
			f.Err = m.readAttributes(f.Inner())
		}
	}
	return f.Err
}

func (m *message) readAttributes(f wire.Fields) error {
	for f.Next() {
		switch f.Tag {
		case tagSource:
			f.Err = m.readSource(f.Inner())
		case tagRequest:
			f.Err = m.readRequest(f.Inner())
		case tagContext:
			f.Err = m.readContext(f.Inner())
		case tagMetadata: // a message in several parts is their concatenation
			m.metadata = append(m.metadata, f.Content()...)
		case tagRouteMetadata:
			m.routeMetadata = append(m.routeMetadata, f.Content()...)
		case tagTLS:
			f.Err = m.readText(f.Inner(), tagSNI, &m.sni)
		}
	}
	return f.Err
}

func (m *message) readSource(f wire.Fields) error {
	for f.Next() {
		switch f.Tag {
		case tagAddress:
			f.Err = m.readAddress(f.Inner())
		case tagPrincipal:
			m.principal = f.Text(m.text)
		}
	}
	return f.Err
}

// readAddress reads one of three kinds of address; the last one in the message counts.
func (m *message) readAddress(f wire.Fields) error {
	for f.Next() {
		switch f.Tag {
		case tagSocketAddress:
			f.Err = m.readText(f.Inner(), tagSocketHost, &m.peer)
		case tagPipe, tagInternalAddress:
			m.peer = ""
		}
	}
	return f.Err
}

// readText reads one string field of a message.
func (m *message) readText(f wire.Fields, tag uint64, text *string) error {
	for f.Next() {
		if f.Tag == tag {
			*text = f.Text(m.text)
		}
	}
	return f.Err
}

func (m *message) readRequest(f wire.Fields) error {
	for f.Next() {
		if f.Tag == tagHTTP {
			f.Err = m.readHTTP(f.Inner())
		}
	}
	return f.Err
}

func (m *message) readHTTP(f wire.Fields) error {
	for f.Next() {
		switch f.Tag {
		case tagMethod:
			m.method = f.Text(m.text)
		case tagPath:
			m.path = f.Text(m.text)
		case tagHost:
			m.host = f.Text(m.text)
		case tagScheme:
			m.scheme = f.Text(m.text)
		case tagHeaders:
			var header rules.Header
			header.Name, header.Value, f.Err = f.Inner().Pair(m.text)
			m.headers = append(m.headers, header)
		case tagHeaderMap:
			m.isRaw = true
			f.Err = m.readRaw(f.Inner())
		}
	}
	return f.Err
}

// readRaw reads the headers that Envoy sends with encode_raw_headers.
func (m *message) readRaw(f wire.Fields) error {
	for f.Next() {
		if f.Tag == tagRawHeader {
			var header rules.Header
			header, f.Err = m.readRawHeader(f.Inner())
			m.raw = append(m.raw, header)
		}
	}
	return f.Err
}

func (m *message) readRawHeader(f wire.Fields) (h rules.Header, err error) {
	var raw string
	for f.Next() {
		switch f.Tag {
		case tagKey:
			h.Name = f.Text(m.text)
		case tagValue:
			h.Value = f.Text(m.text)
		case tagRawValue:
			raw = f.Text(m.text)
		}
	}
	h.Value = cmp.Or(raw, h.Value)
	return h, f.Err
}

// readContext reads an entry of context_extensions.
func (m *message) readContext(f wire.Fields) error {
	key, value, err := f.Pair(m.text)
	if m.context == nil {
		m.context = make(map[string]string)
	}
	m.context[key] = value
	return err
}

// Header returns the value of the header with this lower-case name. Several values
// are joined by a comma, and values of Cookie by "; ".
func (m *message) Header(name string) (string, bool) {
	if m.isRaw {
		return rawHeader(m.raw, name)
	}
	for i := len(m.headers) - 1; i >= 0; i-- {
		if h := &m.headers[i]; h.Name == name {
			if name == "cookie" {
				return mapping.SplitCookies(h.Value), true
			}
			return h.Value, true
		}
	}
	return "", false
}

// rawHeader joins the values that the client sent with a name: raw headers have one
// entry per header line.
func rawHeader(list []rules.Header, name string) (string, bool) {
	var buffer [4]string
	values, separator := buffer[:0], ","
	if name == "cookie" {
		separator = "; "
	}
	for i := range list {
		if strings.EqualFold(list[i].Name, name) {
			values = append(values, list[i].Value)
		}
	}
	return strings.Join(values, separator), len(values) > 0
}

// reset drops the strings and keeps the memory, unless the request was unusually
// large.
func (m *message) reset() {
	const keptEntries = 128 // headers, and entries of context
	const keptMetadata = 16 << 10
	if max(cap(m.headers), cap(m.raw), len(m.context)) > keptEntries || max(cap(m.metadata), cap(m.routeMetadata)) > keptMetadata {
		*m = message{}
		return
	}
	clear(m.headers)
	clear(m.raw)
	clear(m.context)
	*m = message{
		headers: m.headers[:0], raw: m.raw[:0], context: m.context,
		metadata: m.metadata[:0], routeMetadata: m.routeMetadata[:0],
	}
}
