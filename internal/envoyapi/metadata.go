package envoyapi

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// Metadata is the gRPC metadata of a call, which the gateway sets. The zero value is
// empty.
type Metadata struct {
	// Context is the context of the call.
	Context context.Context //nolint:containedctx // the metadata is part of it
}

// Header returns the value of the metadata with this lower-case name. Several values are
// joined by a comma.
func (m *Metadata) Header(name string) (string, bool) {
	if m.Context == nil {
		return "", false
	}
	values := metadata.ValueFromIncomingContext(m.Context, name)
	return strings.Join(values, ","), len(values) > 0
}
