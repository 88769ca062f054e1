package redisconn

import (
	"context"
	"fmt"
	"iter"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// scanHash leaves out what is too long in Redis already, so that its replies are bounded,
// whatever the hash holds.
var scanHash = goredis.NewScript(`local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local list, most = {page[1]}, tonumber(ARGV[3])
for i = 1, #page[2], 2 do
  if #page[2][i] <= most and #page[2][i + 1] <= most then
    list[#list + 1] = page[2][i]
    list[#list + 1] = page[2][i + 1]
  end
end
return list`)

// A HashScan reads the fields of a hash in pages.
type HashScan struct {
	Key string
	// Page is the approximate number of fields in a page.
	Page int
	// MaxBytes is the maximum length of a name and of a value. Fields with longer ones are
	// left out.
	MaxBytes int
	// Timeout limits the time of each page; if it is 0, only the context does.
	Timeout time.Duration
}

// Field is a field of a hash.
type Field struct{ Name, Value string }

// Fields yields all fields. As with HSCAN, a field may occur more than once, and fields
// that change meanwhile may be left out. An error is the last thing that it yields.
func (s *HashScan) Fields(ctx context.Context, client goredis.Scripter) iter.Seq2[Field, error] {
	return func(yield func(Field, error) bool) {
		for cursor := "0"; ; {
			pairs, next, err := s.page(ctx, client, cursor)
			if err != nil {
				yield(Field{}, err)
				return
			}
			for ; len(pairs) > 0; pairs = pairs[2:] {
				if !yield(Field{pairs[0], pairs[1]}, nil) {
					return
				}
			}
			if cursor = next; cursor == "0" {
				return
			}
		}
	}
}

// page returns names and values in turn, and the cursor of the next page; "0" if this is
// the last one.
func (s *HashScan) page(ctx context.Context, client goredis.Scripter, cursor string) (pairs []string, next string, err error) {
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout)
		defer cancel()
	}
	reply, err := scanHash.Run(ctx, client, []string{s.Key}, cursor, s.Page, s.MaxBytes).StringSlice()
	if err != nil {
		return nil, "", err
	}
	if len(reply)%2 != 1 {
		return nil, "", fmt.Errorf("a scan of a hash has a reply of %d parts; want an odd number", len(reply))
	}
	return reply[1:], reply[0], nil
}
