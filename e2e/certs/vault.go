package certs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/koalagate/koalagate/internal/certificates"
)

// Vault is a folder with the certificate files of a server, which fails its test if it cannot
// write them.
type Vault struct {
	testing.TB

	Dir   string
	Files certificates.Files
}

// NewVault returns an empty vault.
func NewVault(t testing.TB) *Vault {
	v := &Vault{TB: t, Dir: t.TempDir()}
	v.Files = certificates.Files{Cert: v.Path("tls.crt"), Key: v.Path("tls.key")}
	return v
}

// Path returns the path of a file in the folder.
func (v *Vault) Path(name string) string { return filepath.Join(v.Dir, name) }

// Write writes a file.
func (v *Vault) Write(path string, text []byte) {
	v.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		v.Fatal(err)
	}
}

// Serve writes a pair to the files of the server.
func (v *Vault) Serve(p Pair) {
	v.Helper()
	v.Write(v.Files.Cert, p.Cert)
	v.Write(v.Files.Key, p.Key)
}

// Authority returns a new authority.
func (v *Vault) Authority(name string) *Authority {
	v.Helper()
	a, err := NewAuthority(name)
	if err != nil {
		v.Fatal(err)
	}
	return a
}

// Sign returns a certificate of an authority; see Authority.Sign.
func (v *Vault) Sign(a *Authority, name string) Pair {
	v.Helper()
	p, err := a.Sign(name)
	if err != nil {
		v.Fatal(err)
	}
	return p
}
