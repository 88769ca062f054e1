package xds

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/koalagate/koalagate/internal/delay"
)

// bucket measures how much of something there was lately: what is added leaks out again. It
// is safe for concurrent use.
type bucket struct {
	size      float64 // what may be added at once
	perSecond float64 // what leaks out

	mu    sync.Mutex
	level float64
	at    time.Time // of level
}

// add adds n, and returns the time after which the level is the size again; 0 if it is not
// above.
func (b *bucket) add(n float64, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() {
		b.level = max(0, b.level-now.Sub(b.at).Seconds()*b.perSecond)
	}
	b.at = now
	b.level = min(b.level, b.size) + n
	return time.Duration(max(0, b.level-b.size) / b.perSecond * float64(time.Second))
}

// paced delays handshakes while there were too many lately. gRPC opens connections again
// without a pause if the server closes them in good order (GOAWAY).
type paced struct {
	credentials.TransportCredentials
	connections *bucket
}

// ClientHandshake waits for its turn.
func (p *paced) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	delay.Wait(ctx, p.connections.add(1, time.Now()))
	return p.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone returns credentials with the same turns.
func (p *paced) Clone() credentials.TransportCredentials {
	return &paced{p.TransportCredentials.Clone(), p.connections}
}
