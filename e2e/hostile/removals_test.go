package hostile_test

import (
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// removable lists headers that samples set for the check or for the application, or on
// which these depend.
var removable = []string{
	"X-User-Id", "X-Koala-Decision", "X-Koala-Rule", "X-Koala-Param-Act", "X-Koala-Accel", "X-Koala-Receipt", "X-Koala-Mark", "X-Forwarded-For", "X-Forwarded-Method",
	"X-Forwarded-Uri", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "X-Original-Method", "X-Original-URI", "X-Original-URL",
	"RateLimit", "Host", "Authorization", "Content-Length", ":path",
}

// waysToRemove are headers by which a client may try to remove the header NAME, or to have its own
// beside it.
var waysToRemove = []string{
	"Connection: NAME", "connection: NAME", "Connection: close, NAME", "Connection: NAME, close", "Connection:\tNAME\t", "Connection: , ,\t,NAME,,",
	"Connection: close\r\nConnection: NAME", "Connection: NAME\r\nConnection: close", "CONNECTION: keep-alive,NAME,keep-alive",
	"Connection: Upgrade, NAME\r\nUpgrade: websocket", "Connection: Upgrade, HTTP2-Settings, NAME\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
	"Connection: TE, NAME\r\nTE: trailers", "Connection: close NAME", "Connection: close;NAME", "Connection: \"NAME\"", "Connection: close,\x0bNAME",
	"Connection: close\r\n , NAME", "Connection: NAME\r\nNAME: mallory", "Content-Length: 0\r\nConnection: Content-Length, NAME",
	"Proxy-Connection: NAME", "Proxy-Connection: close, NAME\r\nConnection: Proxy-Connection", "Keep-Alive: NAME", "Keep-Alive: timeout=5, NAME\r\nConnection: Keep-Alive",
	"TE: NAME", "TE: NAME, trailers\r\nConnection: TE", "Trailer: NAME", "Upgrade: NAME\r\nConnection: Upgrade", "Transfer-Encoding: NAME", "Expect: NAME", "Via: NAME",
	"NAME:", "NAME: mallory", "NAME: mallory\r\nNAME: mallory", "NAME : mallory", "NAME: x\r\n mallory", "NAME\x00: mallory", "NAME\t: mallory", " NAME: mallory",
	"Cache-Control: no-cache=\"NAME\"", "Forwarded: NAME=mallory",
	"Transfer-Encoding: chunked\r\n\r\n0\r\nNAME: mallory", "Transfer-Encoding: chunked\r\nTrailer: NAME\r\n\r\n0\r\nNAME: mallory",
}

// removalsByHTTP2 are such headers for HTTP/2, which forbids those of a connection.
var removalsByHTTP2 = [][]rig.Field{
	{{Name: "connection", Value: "x-user-id"}},
	{{Name: "connection", Value: "close, X-User-Id"}},
	{{Name: "connection", Value: "close"}, {Name: "connection", Value: "x-user-id"}},
	{{Name: "Connection", Value: "x-user-id"}},
	{{Name: "connection", Value: "x-koala-decision"}},
	{{Name: "proxy-connection", Value: "x-user-id"}},
	{{Name: "keep-alive", Value: "x-user-id"}},
	{{Name: "te", Value: "x-user-id"}},
	{{Name: "te", Value: "trailers, x-user-id"}},
	{{Name: "upgrade", Value: "x-user-id"}},
	{{Name: "transfer-encoding", Value: "x-user-id"}},
	{{Name: "trailer", Value: "x-user-id"}},
	{{Name: "x-user-id", Value: "mallory"}},
	{{Name: "X-User-Id", Value: "mallory"}},
	{{Name: "x_user_id", Value: "mallory"}},
	{{Name: "x-user-id", Value: ""}},
	{{Name: "x-a", Value: "b\r\nconnection: x-user-id"}},
}

// multiplied are headers by which Envoy's own clients have requests repeated.
var multiplied = []string{
	"X-Envoy-Max-Retries: 3\r\nX-Envoy-Retry-On: retriable-status-codes,5xx\r\nX-Envoy-Retriable-Status-Codes: 200",
	"X-Envoy-Max-Retries: 3\r\nX-Envoy-Retry-On: retriable-headers\r\nX-Envoy-Retriable-Header-Names: date,x-koala-decision",
	"X-Envoy-Upstream-Rq-Per-Try-Timeout-Ms: 1\r\nX-Envoy-Hedge-On-Per-Try-Timeout: true\r\nX-Envoy-Retry-On: 5xx",
	"X-Envoy-Internal: true\r\nX-Envoy-Max-Retries: 3\r\nX-Envoy-Retry-On: retriable-status-codes\r\nX-Envoy-Retriable-Status-Codes: 200",
}

// connectionOptions are Connection headers of ordinary clients.
var connectionOptions = []string{
	"", "Connection: close", "Connection: keep-alive", "connection: Keep-Alive, TE\r\nTE: trailers", "Connection: TE, close\r\nTE: trailers",
	"Connection: close\r\nConnection: TE\r\nTE: trailers", "Connection:", "Connection: ,\tkeep-alive ,", "Proxy-Connection: keep-alive",
}
