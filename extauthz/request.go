package extauthz

import (
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/door"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/envoyapi"
	"github.com/koalagate/koalagate/internal/mapping"
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
	c.metadata = envoyapi.Metadata{}
	c.message.reset()
}
