package reload

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
)

const tokenRules = `[tokens]
main : keys.pem; issuer=https://id.example.com/; audience=api
[params]
uid : jwt main sub
[rules]
rule : [count] [uid=+; jwt.main=valid{~}] [time=60; count=5] [result=2; return=1]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// newKey returns a new public key.
func newKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: text}))
}

func TestKeysAreReloaded(t *testing.T) {
	dir := t.TempDir()
	path, keys := filepath.Join(dir, "rules.conf"), filepath.Join(dir, "keys.pem")
	write(t, path, tokenRules)
	write(t, keys, newKey(t))
	files := Files{Paths: []string{path}}
	first := newReader(nil)
	set, findings, err := files.load(t.Context(), first)
	if err != nil || set == nil {
		t.Fatal(findings, err)
	}
	if first.changed() {
		t.Error("files that nothing changed have changed")
	}
	write(t, keys, newKey(t))
	if !first.changed() {
		t.Error("a change of keys is not noticed")
	}
	if changed, findings, err := files.load(t.Context(), newReader(first)); changed == nil || changed.Hash == set.Hash {
		t.Errorf("changed keys are the same set: %v, %v", findings, err)
	}
	for name, text := range map[string]string{"nothing": "", "another file": "tenant,rate\n"} {
		write(t, keys, text)
		if bad, findings, _ := files.load(t.Context(), newReader(first)); bad != nil || len(findings) != 1 || findings[0].Code != "E104" {
			t.Errorf("%s for keys: %v; want E104", name, findings)
		}
	}
}

func TestSavedRulesHaveTheirKeys(t *testing.T) {
	dir := t.TempDir()
	path, keys := filepath.Join(dir, "rules.conf"), filepath.Join(dir, "keys.pem")
	write(t, path, tokenRules)
	write(t, keys, newKey(t))
	o := Options{Files: Files{Paths: []string{path}}, StateDir: filepath.Join(dir, "state")}
	before, findings, err := New(o).First()
	if before == nil {
		t.Fatal(findings, err)
	}
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	if set, findings, err := New(o).First(); set == nil || set.Hash != before.Hash {
		t.Fatal("the saved rules lack their keys:", findings, err)
	}
}
