package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// Files of keys are contents of a version, and symmetric keys are refused: by the publisher, and
// by an instance, whatever Redis holds.
func TestKeysTravelAndSecretsDoNot(t *testing.T) {
	const (
		lines = "[tokens]\nmain : keys.json; issuer=i; audience=a; algorithms=ALGORITHM\n[params]\nuid : jwt main sub\n" +
			"[rules]\nrule : [count] [uid=+] [time=60; count=5] [result=2; return=1]\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n"
		public = `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
		secret = `{"keys":[{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}]}`
	)
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := reload.Files{Paths: []string{filepath.Join(dir, "rules.conf")}}
	put("rules.conf", strings.Replace(lines, "ALGORITHM", "EdDSA", 1))
	put("keys.json", public)
	set, m, contents, findings, err := Read(t.Context(), files, 1<<20)
	if err != nil || set == nil || len(m.Lists) != 1 || m.Lists[0].Path != "keys.json" {
		t.Fatalf("%+v, %v, %v; want a version with its keys", m, findings, err)
	}
	if again, findings, err := Parse(t.Context(), m, contents, rules.Options{}); err != nil || again.Hash != set.Hash {
		t.Errorf("an instance reads other rules: %v, %v", findings, err)
	}
	put("rules.conf", strings.Replace(lines, "ALGORITHM", "HS256", 1))
	put("keys.json", secret)
	if set, _, _, findings, _ := Read(t.Context(), files, 1<<20); set != nil || len(findings) == 0 || !strings.Contains(findings[0].Message, "no secrets") {
		t.Errorf("a secret is published: %v", findings)
	}
	m.Lists[0].Blob = contents.add([]byte(secret))
	m.Files[0].Blob = contents.add([]byte(strings.Replace(lines, "ALGORITHM", "HS256", 1)))
	if _, _, err := Parse(t.Context(), m, contents, rules.Options{}); err == nil || !strings.Contains(err.Error(), "no secrets") {
		t.Errorf("an instance takes a secret from Redis: %v", err)
	}
}
