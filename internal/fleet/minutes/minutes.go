// Package minutes shares what each instance sums up of a minute with the other instances,
// through Redis: one document of each kind, minute and instance. Documents expire after
// an hour and are overwritten while their minute lasts, so that writing one again never
// counts anything twice. Whatever Redis returns is bounded; the readers check it.
package minutes

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

const (
	// Kept is the number of minutes that are kept, the current one included.
	Kept = 60
	// expiry is the time for which a minute is kept in Redis.
	expiry = (Kept + 5) * time.Minute
	// MaxDocument is the maximum length of a document, in bytes. Longer ones are not
	// written, and ignored where they are read.
	MaxDocument = 64 << 10
	// piece is the number of documents in one reply.
	piece = 16
	// maxInstances is the number of documents of a minute that are read.
	maxInstances = 1000
	// maxInstance is the length of the name of an instance, in bytes.
	maxInstance = 64
	// maxRead is the number of bytes that one Read keeps.
	maxRead = 64 << 20
)

// write sets the document of an instance, and the expiry, in one step, with commands that
// the counters need, too.
var write = goredis.NewScript("redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return redis.call('PEXPIRE', KEYS[1], ARGV[3])")

// Records are the documents in Redis. They are safe for concurrent use.
type Records struct {
	client   goredis.UniversalClient
	begin    string // of all keys
	instance string
}

// New returns the records below a prefix of keys, for an instance that has a random name.
// It does not close the client.
func New(client goredis.UniversalClient, prefix string) *Records {
	return &Records{client: client, begin: prefix + ":{minutes}:", instance: rand.Text()[:12]}
}

func (r *Records) key(kind string, minute int64) string {
	return r.begin + kind + ":" + strconv.FormatInt(minute, 10)
}

// Write writes the document of this instance about a minute, which is counted from the
// epoch.
func (r *Records) Write(ctx context.Context, kind string, minute int64, document []byte) error {
	if len(document) > MaxDocument {
		return fmt.Errorf("a document of %d bytes; want at most %d", len(document), MaxDocument)
	}
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	return write.Run(ctx, r.client, []string{r.key(kind, minute)}, r.instance, document, expiry.Milliseconds()).Err()
}

// Document is the document of another instance about a minute.
type Document struct {
	Instance string
	Minute   int64
	Text     string
}

// Read returns the documents of the other instances about the minutes from first to last, at
// most the Kept latest of these minutes. It stops before the minute with which they would have
// more than 64 MB. An error comes from Redis, and then none is returned.
func (r *Records) Read(ctx context.Context, kind string, first, last int64) ([]Document, error) {
	var list []Document
	size := 0
	for minute := max(first, last-Kept+1); minute <= last; minute++ {
		found, err := r.minute(ctx, kind, minute)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if size += len(found[i].Text); size > maxRead {
				return list, nil
			}
		}
		list = append(list, found...)
	}
	return list, nil
}

// minute reads one minute in pieces, all of them in the time of one call.
func (r *Records) minute(ctx context.Context, kind string, minute int64) ([]Document, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	var list []Document
	seen := map[string]bool{r.instance: true}
	scan := redisconn.HashScan{Key: r.key(kind, minute), Page: piece, MaxBytes: MaxDocument}
	for field, err := range scan.Fields(ctx, r.client) {
		if err != nil {
			return nil, err
		}
		if len(field.Name) > maxInstance || seen[field.Name] { // a scan may return a field twice
			continue
		}
		seen[field.Name] = true
		list = append(list, Document{Instance: field.Name, Minute: minute, Text: field.Value})
		if len(list) >= maxInstances {
			break
		}
	}
	return list, nil
}
