package service

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// A program that can write to Redis changes counters, the list of operators' changes, and what
// operators see of who calls most and of traffic, with publish_public_key as without. The log of the
// instance stays.
func TestWriterFalsifiesWhatOperatorsSee(t *testing.T) {
	t.Parallel()
	for _, isSigned := range []bool{false, true} {
		t.Run(fmt.Sprintf("with a key: %v", isSigned), func(t *testing.T) {
			t.Parallel()
			server := storetest.StartServer(t)
			client := server.Client()
			defer client.Close()
			const token = "a-token-for-changes-1234"
			flags := map[string]any{"redis": server.URL(), "redis_budget": "1s", "admin_token": token, "redis_prefix": "writer"}
			if isSigned {
				flags["publish_public_key"], flags["state_dir"] = publicKeyFile(t), t.TempDir()
			}
			s, log := open(t, flags)
			run(t, s)
			admin := func(method, path, body string) string {
				t.Helper()
				r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addresses().Admin+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer "+token)
				r.Header.Set("Koalagate-Author", "ann")
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				if err != nil || answer.StatusCode != http.StatusOK {
					t.Fatalf("%s %s: %d %s, %v", method, path, answer.StatusCode, text, err)
				}
				return string(text)
			}

			used := func(what string, want int) {
				t.Helper()
				if got := admin("POST", "/api/v1/why", `{"params":{"uid":"ann"}}`); !strings.Contains(got, fmt.Sprintf(`"used": %d,`, want)) {
					t.Errorf("%s: %s; want %d used", what, got, want)
				}
			}
			get(t, s.Addresses().HTTP, "/rule/take?uid=ann")
			counters, err := client.Keys(t.Context(), "writer:*ann*").Result()
			if err != nil || len(counters) != 1 {
				t.Fatalf("%q, %v; want one counter", counters, err)
			}
			counter := client.Dump(t.Context(), counters[0]).Val()
			used("one hit", 1)
			client.Del(t.Context(), counters[0])
			used("a deleted counter", 0)
			client.Restore(t.Context(), counters[0], time.Minute, counter)
			used("a written counter", 1)

			admin("POST", "/api/v1/reset", `{"rule":201,"identity":{"uid":"bob"}}`)
			const changes = "writer:{audit}:changes"
			change := client.LIndex(t.Context(), changes, 0).Val()
			forged := strings.NewReplacer(`"ann"`, `"mallory"`, `"id":"`, `"id":"x`).Replace(change)
			if forged == change || forged == "" {
				t.Fatalf("the change %q", change)
			}
			if err := errors.Join(client.Del(t.Context(), changes).Err(), client.LPush(t.Context(), changes, forged).Err()); err != nil {
				t.Fatal(err)
			}
			storetest.Eventually(t, func() error {
				if got := admin("GET", "/api/v1/audit", ""); !strings.Contains(got, "mallory") {
					return errors.New(got)
				}
				return nil
			})
			if text := log.String(); strings.Contains(text, "mallory") || !strings.Contains(text, "author=ann") {
				t.Errorf("the log is %s", text)
			}

			for path, document := range map[string]string{
				"traffic": `{"v":[424242,0,0,0,0],"r":[]}`,
				"top":     `{"n":[424242],"l":[{"r":201,"v":["dWlk","ZXZl"],"c":[424242],"e":[0]}]}`,
			} {
				for minute := range int64(3) { // the test may run into the next one
					key := fmt.Sprintf("writer:{minutes}:%s:%d", path, time.Now().Unix()/60+minute-1)
					if err := client.HSet(t.Context(), key, "forger", document).Err(); err != nil {
						t.Fatal(err)
					}
				}
				storetest.Eventually(t, func() error {
					if got := admin("GET", "/api/v1/"+path, ""); !strings.Contains(got, "424242") && !strings.Contains(got, "848484") {
						return fmt.Errorf("%s: %s", path, got)
					}
					return nil
				})
			}
		})
	}
}
