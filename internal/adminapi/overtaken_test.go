package adminapi

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// Who loses a race of publishing learns whose version won and what it changes, also while that
// one waits for the instances.
func TestLoserOfAPublishLearnsTheWinnersChanges(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	member := newMemberWith(t, func(o *fleet.Options) { o.PublicKey = public }, func(o *fleet.MemberOptions) { o.StateDir = t.TempDir() })
	s := newStage(t, func(o *Options) { o.Member = member })
	ask := func(line string, body any, status int) string {
		t.Helper()
		text, _ := json.Marshal(body)
		w := s.ask(line, string(text), "Authorization", "Bearer "+changeToken)
		if w.Code != status {
			t.Fatalf("%s: %d %s; want %d", line, w.Code, w.Body, status)
		}
		return w.Body.String()
	}
	changed := strings.Replace(ruleFile, "return=301", "return=302; name=bots", 1)
	for _, text := range []string{ruleFile, changed} {
		if w := s.ask("PUT contents/"+fleet.BlobOf([]byte(text)).Sum, text, "Authorization", "Bearer "+changeToken); w.Code != http.StatusOK {
			t.Fatal(w.Body)
		}
	}
	// A signed version waits for its second signature.
	propose := func(number, before uint64, text, author string, status int) (manifest []byte, answer string) {
		t.Helper()
		m := &fleet.Manifest{Prefix: "api", Number: number, Before: before, Author: author, Note: "block bots", Hash: "h", Rules: 3, Files: []fleet.File{{Name: "rules.conf", Blob: fleet.BlobOf([]byte(text))}}}
		manifest, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return manifest, ask("POST versions", &NewVersion{Manifest: string(manifest), Signature: fleet.Sign(private, fleet.ToPublish, manifest), TimeoutMS: 60_000}, status)
	}
	enforce := func(number uint64, manifest []byte) {
		t.Helper()
		path := fmt.Sprintf("proposals/%d", number)
		storetest.Eventually(t, func() error {
			if w := s.ask("GET "+path, ""); !strings.Contains(w.Body.String(), `"state": "ready"`) {
				return errors.New(w.Body.String())
			}
			return nil
		})
		ask("POST "+path, &Enforcement{Signature: fleet.Sign(private, fleet.InForce, manifest)}, http.StatusOK)
		storetest.Eventually(t, func() error {
			if a := member.Active(); a == nil || a.Number != number {
				return fmt.Errorf("version %d is not active", number)
			}
			return nil
		})
	}
	first, _ := propose(1, 0, ruleFile, "ann", http.StatusOK)
	enforce(1, first)
	client, head := headOf(t, member)
	snapshot := client.HGetAll(t.Context(), head).Val()

	second, _ := propose(2, 1, changed, "eve", http.StatusOK)
	const won = "version 2 is by eve (block bots), and changes in version 1: added 302 bots; removed 301"
	if _, answer := propose(3, 1, ruleFile, "bob", http.StatusConflict); !strings.Contains(answer, "version 2 is being published") || !strings.Contains(answer, won) {
		t.Errorf("while version 2 is being published: %s", answer)
	}
	enforce(2, second)
	if _, answer := propose(3, 1, ruleFile, "bob", http.StatusConflict); !strings.Contains(answer, "version 2 came into force meanwhile") || !strings.Contains(answer, won) {
		t.Errorf("after version 2 came into force: %s", answer)
	}

	// A Redis that is restored from a copy has version 1 in force again, while version 3 waits: its
	// publisher, who began from version 2, learns the difference from there.
	propose(3, 2, ruleFile, "bob", http.StatusOK)
	if err := errors.Join(client.Del(t.Context(), head).Err(), client.HSet(t.Context(), head, snapshot).Err()); err != nil {
		t.Fatal(err)
	}
	const restored = "another version came into force; version 1 is by ann (block bots), and changes in version 2: added 301; removed 302 bots"
	storetest.Eventually(t, func() error {
		if w := s.ask("GET proposals/3", ""); !strings.Contains(w.Body.String(), `"state": "conflict"`) || !strings.Contains(w.Body.String(), restored) {
			return fmt.Errorf("version 3: %s; want a conflict: %s", w.Body, restored)
		}
		return nil
	})
}

// headOf returns a client of the Redis of a member, and the key with what is in force.
func headOf(t *testing.T, m *fleet.Member) (client *redis.Client, key string) {
	t.Helper()
	o, err := redis.ParseURL(m.Records().Options().Redis.URL)
	if err != nil {
		t.Fatal(err)
	}
	client = redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	keys, err := client.Keys(t.Context(), "*:head").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("the keys %q, %v; want one", keys, err)
	}
	return client, keys[0]
}
