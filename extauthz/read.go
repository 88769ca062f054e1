package extauthz

import (
	"cmp"
	"strings"

	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire"
)

// The tags of a CheckRequest and of what is read in it:
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

// asked is what the mapping needs of a CheckRequest, any part of which may be
// missing: Envoy's TCP filter sends no request at all. Its texts are any bytes, as
// a client's header may have them, which the library would refuse to read.
//
// The request's own fields are read and never its pseudo headers, which
// Envoy's allowed_headers takes away. source.address is the peer of the
// connection, whatever X-Forwarded-For says.
type asked struct {
	method, path, host, scheme string
	peer, principal, sni       string

	headers []mapping.Entry // of a name that comes twice the last counts
	raw     []mapping.Entry // as the client sent them; where isRaw, these count
	isRaw   bool
	context map[string]string

	metadata, routeMetadata []byte // in wire form: few rules look into it

	text string // the whole request, of which all texts are parts
}

// read reads a request as the library does. What is not needed it passes over.
func (a *asked) read(request []byte) error {
	a.text = string(request)
	f := wire.Read(request)
	for f.Next() {
		if f.Tag == tagAttributes {
			f.Err = a.readAttributes(f.Inner())
		}
	}
	return f.Err
}

func (a *asked) readAttributes(f wire.Fields) error {
	for f.Next() {
		switch f.Tag {
		case tagSource:
			f.Err = a.readSource(f.Inner())
		case tagRequest:
			f.Err = a.readRequest(f.Inner())
		case tagContext:
			f.Err = a.readContext(f.Inner())
		case tagMetadata: // what comes in parts is the parts in a row
			a.metadata = append(a.metadata, f.Content()...)
		case tagRouteMetadata:
			a.routeMetadata = append(a.routeMetadata, f.Content()...)
		case tagTLS:
			f.Err = a.readText(f.Inner(), tagSNI, &a.sni)
		}
	}
	return f.Err
}

func (a *asked) readSource(f wire.Fields) error {
	for f.Next() {
		switch f.Tag {
		case tagAddress:
			f.Err = a.readAddress(f.Inner())
		case tagPrincipal:
			a.principal = f.Text(a.text)
		}
	}
	return f.Err
}

// readAddress reads one of three kinds, of which the last that comes counts.
func (a *asked) readAddress(f wire.Fields) error {
	for f.Next() {
		switch f.Tag {
		case tagSocketAddress:
			f.Err = a.readText(f.Inner(), tagSocketHost, &a.peer)
		case tagPipe, tagInternalAddress:
			a.peer = ""
		}
	}
	return f.Err
}

// readText reads a message of which one text is all that is needed.
func (a *asked) readText(f wire.Fields, tag uint64, text *string) error {
	for f.Next() {
		if f.Tag == tag {
			*text = f.Text(a.text)
		}
	}
	return f.Err
}

func (a *asked) readRequest(f wire.Fields) error {
	for f.Next() {
		if f.Tag == tagHTTP {
			f.Err = a.readHTTP(f.Inner())
		}
	}
	return f.Err
}

func (a *asked) readHTTP(f wire.Fields) error {
	for f.Next() {
		switch f.Tag {
		case tagMethod:
			a.method = f.Text(a.text)
		case tagPath:
			a.path = f.Text(a.text)
		case tagHost:
			a.host = f.Text(a.text)
		case tagScheme:
			a.scheme = f.Text(a.text)
		case tagHeaders:
			var header mapping.Entry
			header.Key, header.Value, f.Err = f.Inner().Pair(a.text)
			a.headers = append(a.headers, header)
		case tagHeaderMap:
			a.isRaw = true
			f.Err = a.readRaw(f.Inner())
		}
	}
	return f.Err
}

// readRaw reads the headers that encode_raw_headers has Envoy send.
func (a *asked) readRaw(f wire.Fields) error {
	for f.Next() {
		if f.Tag == tagRawHeader {
			var header mapping.Entry
			header, f.Err = a.readRawHeader(f.Inner())
			a.raw = append(a.raw, header)
		}
	}
	return f.Err
}

func (a *asked) readRawHeader(f wire.Fields) (h mapping.Entry, err error) {
	var raw string
	for f.Next() {
		switch f.Tag {
		case tagKey:
			h.Key = f.Text(a.text)
		case tagValue:
			h.Value = f.Text(a.text)
		case tagRawValue:
			raw = f.Text(a.text)
		}
	}
	h.Value = cmp.Or(raw, h.Value)
	return h, f.Err
}

// readContext reads an entry of context_extensions.
func (a *asked) readContext(f wire.Fields) error {
	key, value, err := f.Pair(a.text)
	if a.context == nil {
		a.context = make(map[string]string)
	}
	a.context[key] = value
	return err
}

// Header returns the value of the header with this lower-case name: several
// values joined by a comma, and those of Cookie by "; ", as Envoy joins them.
func (a *asked) Header(name string) (string, bool) {
	if a.isRaw {
		return rawHeader(a.raw, name)
	}
	for i := len(a.headers) - 1; i >= 0; i-- {
		if h := &a.headers[i]; h.Key == name {
			if name == "cookie" {
				return mapping.CookiesApart(h.Value), true
			}
			return h.Value, true
		}
	}
	return "", false
}

// rawHeader joins what the client sent under a name, which stands as often as it
// was sent.
func rawHeader(list []mapping.Entry, name string) (string, bool) {
	var room [4]string
	values, separator := room[:0], ","
	if name == "cookie" {
		separator = "; "
	}
	for i := range list {
		if strings.EqualFold(list[i].Key, name) {
			values = append(values, list[i].Value)
		}
	}
	return strings.Join(values, separator), len(values) > 0
}

// forget drops the texts and keeps the memory, unless the request was uncommonly
// large.
func (a *asked) forget() {
	const common = 128 // headers, and entries of context
	const commonMetadata = 16 << 10
	if max(cap(a.headers), cap(a.raw), len(a.context)) > common || max(cap(a.metadata), cap(a.routeMetadata)) > commonMetadata {
		*a = asked{}
		return
	}
	clear(a.headers)
	clear(a.raw)
	clear(a.context)
	*a = asked{
		headers: a.headers[:0], raw: a.raw[:0], context: a.context,
		metadata: a.metadata[:0], routeMetadata: a.routeMetadata[:0],
	}
}
