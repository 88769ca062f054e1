package service

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

// publicKeyFile returns the path of a file for publish_public_key.
func publicKeyFile(t *testing.T) string {
	t.Helper()
	public, err := x509.MarshalPKIXPublicKey(ed25519.NewKeyFromSeed(make([]byte, 32)).Public())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "publish.pub")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A mode in Redis is followed by the setting, is in the audit trail, and is undone with its
// key; without the setting, or with a key of the publisher, it is not read.
func TestModesInRedis(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	key := publicKeyFile(t)
	follower, _ := open(t, map[string]any{"redis": server.URL(), "follow_modes": true, "modes": []string{"extauthz=observe"}})
	for name, flags := range map[string]map[string]any{
		"with files": {"redis": server.URL()},
		"with published rules and a key": {
			"redis": server.URL(), "rules": []string{"redis:"}, "publish_public_key": key, "state_dir": t.TempDir(),
		},
	} {
		if s, _ := open(t, flags); s.fleetModes != nil || s.operatorState().FleetModes {
			t.Errorf("%s: it follows the modes in Redis", name)
		}
	}
	// It has a prefix of its own: its audit trail would be the follower's too.
	if s, _ := open(t, map[string]any{"redis": server.URL(), "redis_prefix": "other", "rules": []string{"redis:"}}); s.fleetModes == nil {
		t.Error("with published rules it does not follow the modes in Redis")
	}
	becomes := func(door string, want engine.Mode) {
		t.Helper()
		storetest.Eventually(t, func() error {
			if got := follower.modes.Of(door); got != want {
				return fmt.Errorf("%s is in the mode %s; want %s", door, got, want)
			}
			return nil
		})
	}
	doors := follower.config.RedisPrefix + ":{modes}:doors"
	client.HSet(t.Context(), doors, "extauthz", "a off", "koala", "a off", "accel", "a nonsense", "nodoor", "a off")
	becomes("extauthz", engine.ModeOff)
	becomes("koala", engine.ModeOff)
	follower.modes.Set(map[string]engine.Mode{"koala": engine.ModeObserve}) // by an operator, here
	client.Del(t.Context(), doors)
	becomes("extauthz", engine.ModeObserve)
	becomes("koala", engine.ModeObserve)
	if err := follower.fleetModes.Set(t.Context(), map[string]string{"accel": "off"}); err != nil {
		t.Fatal(err)
	}
	becomes("accel", engine.ModeOff)
	client.Del(t.Context(), doors)
	becomes("accel", engine.ModeEnforce)
	want := []string{
		"accel enforce again: off is not set in Redis any more",
		"extauthz observe again: off is not set in Redis any more",
		"extauthz off, set in Redis for all instances, observe before",
		"koala off, set in Redis for all instances, enforce before",
	}
	var got []string
	changes, _ := follower.trail.Changes(t.Context())
	for _, c := range changes {
		got = append(got, c.Detail)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Each kind of observed refusal is logged once per interval; the next line has the
// number of refusals that were not logged.
func TestObservedRefusalsAreLoggedOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := newObservedLog(slog.New(slog.NewTextHandler(&text, nil)))
		refusal := func(rule int64) *engine.Decision {
			return &engine.Decision{Answers: []engine.Answer{
				{Mode: engine.ModeObserve}, // allowed: not logged
				{Mode: engine.ModeObserve, Observed: rules.Deny, Decider: &rules.Rule{Return: rule}},
			}}
		}
		call := &engine.Call{Door: "koala"}
		for range 5 {
			l.log(call, refusal(201))
			l.log(call, refusal(202))
		}
		l.log(&engine.Call{Door: "accel", Fault: errors.New("malformed path")}, &engine.Decision{Answers: []engine.Answer{{Observed: rules.Deny}}})
		time.Sleep(loglimit.Every)
		l.log(call, refusal(201))

		const line = `level=INFO msg="a refusal was observed and not enforced" `
		want := []string{
			line + "door=koala decision=observed-deny rule=201 suppressed=0",
			line + "door=koala decision=observed-deny rule=202 suppressed=0",
			line + `door=accel decision=observed-deny fault="malformed path" suppressed=0`,
			line + "door=koala decision=observed-deny rule=201 suppressed=4",
		}
		got := strings.Split(strings.TrimSpace(text.String()), "\n")
		for i := range got {
			_, got[i], _ = strings.Cut(got[i], " ") // the time
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
