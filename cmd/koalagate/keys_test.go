package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// keys writes a new Ed25519 key to NAME.key and its public key to NAME.pub, for each NAME,
// as openssl does: `keys NAME…`.
func keys(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		public, private, err := ed25519.GenerateKey(nil)
		ts.Check(err)
		key, err := x509.MarshalPKCS8PrivateKey(private)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
		key, err = x509.MarshalPKIXPublicKey(public)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: key}), 0o600))
	}
}
