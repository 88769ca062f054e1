package minutes_test

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/fleet/minutes"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// The permissions of the counters and hscan are enough, and no key stays.
func TestMinimalPermissions(t *testing.T) {
	server := storetest.StartServer(t)
	admin := server.Client()
	defer admin.Close()
	grants := []any{"ACL", "SETUSER", "koalagate", "on", ">secret", "~koala:*", "+evalsha", "+eval", "+hset", "+pexpire", "+hscan"}
	if err := admin.Do(t.Context(), grants...).Err(); err != nil {
		t.Fatal(err)
	}
	options := *admin.Options()
	options.Username, options.Password = "koalagate", "secret"
	client := goredis.NewClient(&options)
	defer client.Close()
	minute := minutes.Of(time.Now())
	one, two := minutes.New(client, "koala"), minutes.New(client, "koala")
	if err := one.Write(t.Context(), "traffic", minute, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := one.Write(t.Context(), "traffic", minute, []byte("second")); err != nil {
		t.Fatal(err)
	}
	list, err := two.Read(t.Context(), "traffic", minute-minutes.Kept, minute)
	if err != nil || len(list) != 1 || list[0].Text != "second" || list[0].Minute != minute {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := one.Read(t.Context(), "traffic", minute, minute); err != nil || len(list) != 0 {
		t.Errorf("its own: %+v, %v", list, err)
	}
	if err := one.Write(t.Context(), "traffic", minute, make([]byte, minutes.MaxDocument+1)); err == nil {
		t.Error("a document that is too long was written")
	}
	server.CheckExpiries(t, "koala")
}
