package redisconn

import (
	"context"
	"fmt"

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

// ScanHash returns some fields of a hash, with about count of them at a time: names and
// values in turn, without pairs of which a part is longer than most bytes. It begins with the
// cursor "0", and has returned all fields when next is "0".
func ScanHash(ctx context.Context, client goredis.Scripter, key, cursor string, count, most int) (pairs []string, next string, err error) {
	reply, err := scanHash.Run(ctx, client, []string{key}, cursor, count, most).StringSlice()
	if err != nil {
		return nil, "", err
	}
	if len(reply)%2 != 1 {
		return nil, "", fmt.Errorf("a scan of a hash has a reply of %d parts; want an odd number", len(reply))
	}
	return reply[1:], reply[0], nil
}
