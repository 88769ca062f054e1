// Package xds receives limits from a control plane, with the state of the world variant
// of xDS: a response always has all limits.
//
// The client subscribes on one stream, applies each response as a whole, and answers with
// an ACK or a NACK (stream.go). A lost stream is opened again after a pause that grows
// (backoff.go). The limits that were received last stay until others arrive.
//
// The control plane may be broken or hostile: a response is decoded only within bounds
// (response.go), and connections, responses and the time of their processing are bounded
// (bucket.go). docs/bounds.md lists the bounds.
package xds

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/koalagate/koalagate/internal/delay"
	"github.com/koalagate/koalagate/internal/envoylimits"
)

// Options configure a Client. Server is required.
type Options struct {
	// Server is the address of the control plane, host:port.
	Server string
	// NodeID and NodeMetadata, as k=v,k2=v2, identify this client.
	NodeID, NodeMetadata string
	// Headers are sent with each stream.
	Headers map[string]string
	// MaxMessage is the largest size of a response in bytes; 0 for 64 MiB.
	MaxMessage int
	TLS        TLS
	// ConnectTimeout bounds an attempt to connect with its handshakes; 0 for 10 s.
	ConnectTimeout time.Duration
	// ConnectRetry is the longest pause between attempts to connect, at least 1 s.
	ConnectRetry time.Duration
	Backoff      Backoff
	// Logger is slog.Default if it is nil.
	Logger *slog.Logger
}

// TLS are the files for a connection with TLS.
type TLS struct {
	Enabled bool
	// Cert and Key are the client's own certificate; "" for none. They are read for each
	// connection.
	Cert, Key string
	// CA is added to the authorities of the system; "" for none.
	CA string
	// ServerName is the name in the server's certificate; "" for the host of the address.
	ServerName string
}

// Backoff defines the pauses between streams: the first is Initial, and each further one is
// Factor times as long as the one before, up to Max. With Jitter a pause is a random time
// between Initial and that.
type Backoff struct {
	Initial, Max time.Duration // 0 for 100 ms and 10 s
	Factor       float64
	Jitter       bool
}

// Applier receives the responses of the control plane.
type Applier interface {
	// Apply makes configurations the current limits, or returns an error that the
	// control plane receives.
	Apply([]*envoylimits.Config) error
	// Reject reports a response that contains no configurations.
	Reject(error)
}

// Client is a client of a control plane.
type Client struct {
	Options
	node        *corev3.Node
	credentials credentials.TransportCredentials
	responses   bucket // in units of perResponse
	busy        bucket // in seconds in which responses are processed
}

// defaultMessage is the largest size of a response without another setting: 100,000
// domains fit.
const defaultMessage = 64 << 20

// New returns a client, which has not connected yet. Its error names a TLS file that
// cannot be used.
func New(o Options) (*Client, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxMessage <= 0 || o.MaxMessage > math.MaxInt32 {
		o.MaxMessage = defaultMessage
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 10 * time.Second
	}
	o.Backoff.setDefaults()
	c := &Client{
		Options: o, node: nodeOf(&o), credentials: insecure.NewCredentials(),
		responses: bucket{size: 100, perSecond: 2}, busy: bucket{size: 5, perSecond: 0.2},
	}
	if o.TLS.Enabled {
		t, err := o.TLS.config()
		if err != nil {
			return nil, err
		}
		c.credentials = credentials.NewTLS(t)
	}
	c.credentials = &paced{c.credentials, &bucket{size: 10, perSecond: 1}}
	return c, nil
}

// nodeOf returns the node of the first request of a stream.
func nodeOf(o *Options) *corev3.Node {
	metadata := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for item := range strings.SplitSeq(o.NodeMetadata, ",") {
		if name, value, ok := strings.Cut(item, "="); ok {
			metadata.Fields[name] = structpb.NewStringValue(value)
		}
	}
	return &corev3.Node{Id: o.NodeID, Metadata: metadata}
}

// config reads the files.
func (t *TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, err
		}
		if c.RootCAs, err = x509.SystemCertPool(); err != nil {
			c.RootCAs = x509.NewCertPool()
		}
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s contains no certificate; want PEM", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("CONFIG_GRPC_XDS_CLIENT_TLS_CERT and CONFIG_GRPC_XDS_CLIENT_TLS_KEY require each other")
	}
	if t.Cert == "" {
		return c, nil
	}
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		return &pair, err
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	return c, nil
}

// Run receives limits until ctx is done.
func (c *Client) Run(ctx context.Context, to Applier) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		received, err := c.session(ctx, to)
		if ctx.Err() != nil {
			return
		}
		if received && !errors.Is(err, errFlood) {
			attempt = 0
		}
		pause := c.Backoff.pause(attempt)
		c.Logger.Error("the control plane is lost; the limits stay", "server", c.Server, "error", fmt.Sprintf("%.1000s", err), "again_in", pause.String())
		delay.Wait(ctx, pause)
	}
}

// session connects and follows one stream. It reports whether a response arrived.
func (c *Client) session(ctx context.Context, to Applier) (received bool, err error) {
	conn, err := c.connect()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	return c.follow(ctx, conn, to)
}

func (c *Client) connect() (*grpc.ClientConn, error) {
	pauses := backoff.DefaultConfig
	pauses.MaxDelay = c.connectRetry()
	return grpc.NewClient(c.Server,
		grpc.WithTransportCredentials(c.credentials),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.MaxMessage), grpc.WaitForReady(true)),
		grpc.WithMaxHeaderListSize(maxHeader),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: c.ConnectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: deadServerAfter, Timeout: pingTimeout}))
}

// connectRetry returns the longest pause between attempts to connect.
func (c *Client) connectRetry() time.Duration {
	return max(c.ConnectRetry, backoff.DefaultConfig.BaseDelay)
}

const (
	// maxHeader is the size of the headers of the control plane, in bytes.
	maxHeader = 64 << 10
	// deadServerAfter is the silence after which the server is pinged; gRPC servers
	// refuse more frequent pings by default.
	deadServerAfter = 5 * time.Minute
	pingTimeout     = 20 * time.Second
)
