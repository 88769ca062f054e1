package audit

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/pace"
)

const (
	// callTimeout bounds writing a change, and reading all of them: the operator waits for it.
	callTimeout = time.Second
	// expiry is the time for which the trail outlives its last change.
	expiry = 31 * 24 * time.Hour
	// maxRecord is the maximum length of a change in Redis, in bytes. Longer ones are
	// shortened where they are written, and ignored where they are read.
	maxRecord = 4096
	// maxDetail and maxWord are the maximum lengths of Detail and of the other texts, in bytes.
	maxDetail, maxWord = 2000, 128
	// idLength is the length of a new ID, and maxID the maximum length of an ID in Redis.
	idLength, maxID = 12, 32
	// piece is the number of changes in one reply, which Redis writes, and an instance reads, in
	// less than a slice of package pace.
	piece = 25
)

// The list holds the latest change first. The script that reads it leaves out what is too
// long, so that its replies are bounded, whatever Redis holds.
var (
	writeScript = goredis.NewScript(`redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
return redis.call('PEXPIRE', KEYS[1], ARGV[3])`)
	readScript = goredis.NewScript(`local list = {}
for _, one in ipairs(redis.call('LRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  list[#list + 1] = #one <= tonumber(ARGV[3]) and one or ''
end
return list`)
)

// records are the changes of all instances in Redis.
type records struct {
	client goredis.UniversalClient
	key    string
}

// record is a change as Redis holds it.
type record struct {
	ID string `json:"id"` // random
	Change
}

func (r *records) write(ctx context.Context, one *record) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return writeScript.Run(ctx, r.client, []string{r.key}, one.encode(), Max, expiry.Milliseconds()).Err()
}

// read returns the changes that can be read, the latest first.
func (r *records) read(ctx context.Context) ([]record, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var all []record
	for first := 0; first < Max; first += piece {
		texts, err := readScript.Run(ctx, r.client, []string{r.key}, first, first+piece-1, maxRecord).StringSlice()
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			if err := pace.Step(ctx); err != nil {
				return nil, err
			}
			if one, err := parse(text); err == nil { // others are damaged, or of a newer program
				all = append(all, one)
			}
		}
		if len(texts) < piece {
			break
		}
	}
	return all, nil
}

// encode returns the text of a change, with shorter texts if it is too long.
func (r *record) encode() []byte {
	one := *r
	for _, word := range one.words() {
		*word = shorten(*word, maxWord)
	}
	for limit := maxDetail; ; limit /= 2 {
		one.Detail = shorten(one.Detail, limit)
		text, _ := json.Marshal(&one) // strings and a time can always be encoded
		if len(text) <= maxRecord || limit == 0 {
			return text
		}
	}
}

// words returns the short texts of a change.
func (r *record) words() []*string { return []*string{&r.Author, &r.Peer, &r.Host, &r.Action} }

// shorten returns a text with at most limit bytes and, if that is shorter, a mark.
func shorten(text string, limit int) string {
	const mark = "…"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:max(limit-len(mark), 0)], "") + mark
}

var errForm = errors.New("the change has an unknown form")

// parse reads a change, which may be anything. Fields of newer programs are ignored.
func parse(text string) (record, error) {
	var one record
	if len(text) > maxRecord || !utf8.ValidString(text) {
		return one, errForm
	}
	if err := json.Unmarshal([]byte(text), &one); err != nil {
		return one, err
	}
	isValid := one.ID != "" && len(one.ID) <= maxID && one.Action != "" && !one.At.IsZero()
	for _, word := range one.words() {
		isValid = isValid && len(*word) <= maxWord
	}
	if !isValid {
		return one, errForm
	}
	return one, nil
}
