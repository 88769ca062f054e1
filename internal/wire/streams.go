package wire

import "google.golang.org/grpc"

// Streams is a gRPC service with one method, whose calls are streams in both directions of
// messages in wire form.
type Streams struct {
	description grpc.ServiceDesc
	method      string
}

// StreamFront is a gRPC server whose codec leaves the messages of Streams in wire form, as a
// Front does those of a Service. envoy.Server is one.
type StreamFront interface {
	RegisterStreams(s *Streams)
}

// NewStreams returns a service with the names of a generated service description, which has
// one method. It calls handle for every stream, which receives messages into a Message and
// sends Replies. The stream ends when handle returns.
func NewStreams(generated *grpc.ServiceDesc, handle func(grpc.ServerStream) error) *Streams {
	name := generated.Streams[0].StreamName
	return &Streams{method: "/" + generated.ServiceName + "/" + name, description: grpc.ServiceDesc{
		ServiceName: generated.ServiceName,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: name, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return handle(stream) },
		}},
		Metadata: generated.Metadata,
	}}
}

// Describe returns the description to register the service with at a front.
func (s *Streams) Describe() *grpc.ServiceDesc { return &s.description }

// Method returns the full name of the method, such as /grpc.health.v1.Health/Watch.
func (s *Streams) Method() string { return s.method }

// Message is a message of a stream in wire form. The zero value is empty.
type Message struct{ content []byte }

// keptMessage is the largest message whose memory is reused.
const keptMessage = 64 << 10

// UnmarshalBinary copies the message.
func (m *Message) UnmarshalBinary(content []byte) error {
	if cap(m.content) > keptMessage {
		m.content = nil
	}
	m.content = append(m.content[:0], content...)
	return nil
}

// Content returns the message, which is valid until the next one is received.
func (m *Message) Content() []byte { return m.content }
