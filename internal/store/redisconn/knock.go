package redisconn

import (
	"bufio"
	"bytes"
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Knock connects outside of the client's pool and hangs up. After as many
// failed dials as it has connections, the pool dials by itself, once a second,
// and fails every call until then: without Knock, Redis would be found back a
// second late.
func Knock(ctx context.Context, client *goredis.Client) error {
	o := client.Options()
	connection, err := o.Dialer(ctx, o.Network, o.Addr)
	if err != nil {
		return err
	}
	return connection.Close()
}

// farewellWait is how long RefusedConnection waits for a server to send its
// reason for hanging up. A server sends it before it receives anything.
const farewellWait = 20 * time.Millisecond

// Reply is an error reply of Redis that did not arrive as the reply to a
// command.
type Reply string

func (s Reply) Error() string { return string(s) }

// RedisError makes it a reply for the client library.
func (Reply) RedisError() {}

// RefusedConnection returns what Redis sends to a new connection before it hangs
// up, if err is a cut connection; else err. Redis sends that it has no
// connection left. A client with a password misses that, and reports only that
// it was cut off.
func RefusedConnection(ctx context.Context, client *goredis.Client, err error) error {
	if err == nil || !cut(err) {
		return err
	}
	o := client.Options()
	connection, dialed := o.Dialer(ctx, o.Network, o.Addr)
	if dialed != nil {
		return dialed
	}
	defer connection.Close()
	if late := connection.SetReadDeadline(time.Now().Add(farewellWait)); late != nil {
		return err
	}
	// A Redis that accepts the connection sends nothing, and err stands.
	line, _ := bufio.NewReaderSize(connection, 256).ReadSlice('\n')
	if text, is := bytes.CutPrefix(bytes.TrimSpace(line), []byte("-")); is {
		return Reply(text)
	}
	return err
}
