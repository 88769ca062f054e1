package tokens_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// now is the instant of all tests.
var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// The keys of the tests by name.
var private = func() map[string]crypto.Signer {
	keys := make(map[string]crypto.Signer)
	for name, bits := range map[string]int{"rsa": 2048, "other-rsa": 2048, "weak": 1024} {
		keys[name] = must(rsa.GenerateKey(rand.Reader, bits))
	}
	for name, curve := range map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521(), "other-p256": elliptic.P256()} {
		keys[name] = must(ecdsa.GenerateKey(curve, rand.Reader))
	}
	for _, name := range []string{"ed", "other-ed"} {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			panic(err)
		}
		keys[name] = key
	}
	return keys
}()

const secret = "an HMAC key of sufficient length for each of the three algorithms: 64 bytes and more"

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// jwk is a public key in a set.
func jwk(id, name string, members ...string) string {
	text := must(jose.JSONWebKey{Key: private[name].Public(), KeyID: id}.MarshalJSON())
	for _, m := range members {
		text = append(text[:len(text)-1], ("," + m + "}")...)
	}
	return string(text)
}

func oct(id string) string {
	return fmt.Sprintf(`{"kty":"oct","kid":%q,"k":%q}`, id, base64.RawURLEncoding.EncodeToString([]byte(secret)))
}

func set(keys ...string) *tokens.Keys {
	return must(tokens.ParseKeys([]byte(`{"keys":[`+strings.Join(keys, ",")+`]}`), true))
}

// all are the keys that most tests verify with.
var all = set(jwk("rsa", "rsa"), jwk("p256", "p256"), jwk("p384", "p384"), jwk("p521", "p521"), jwk("ed", "ed"))

// public are the algorithms that are accepted unless a line names others.
var public = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func terms() *rules.JWT {
	return &rules.JWT{
		Name: "main", Issuer: "https://id.example.com/", Audiences: []string{"api", "web"}, Algorithms: public, Leeway: time.Minute,
		Claims: []rules.Claim{{Path: []string{"sub"}}},
	}
}

func verifier(terms *rules.JWT, keys *tokens.Keys) *tokens.Verifier {
	return tokens.New(terms, keys, tokens.Options{
		Now: func() time.Time { return now }, Remembered: 100, Turns: make(tokens.Turns, 1),
	})
}

// source is a source of keys that change.
type source struct {
	keys func() *tokens.Keys
	want func(id string)
}

func (s source) Keys() *tokens.Keys { return s.keys() }

func (s source) Want(id string) { s.want(id) }

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// signed returns a token with exactly this header and payload, signed by an algorithm with a key.
func signed(header, payload, algorithm string, key any) string {
	input := encode(header) + "." + encode(payload)
	return input + "." + base64.RawURLEncoding.EncodeToString(must(jwt.GetSigningMethod(algorithm).Sign(input, key)))
}

// claims returns a payload that all terms accept, with changed members; null removes one.
func claims(change string) string {
	members := map[string]json.RawMessage{}
	for _, text := range []string{fmt.Sprintf(`{"iss":"https://id.example.com/","aud":"api","sub":"ann","exp":%d}`, now.Unix()+600), change} {
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			panic(err)
		}
	}
	for name, value := range members {
		if string(value) == "null" {
			delete(members, name)
		}
	}
	return string(must(json.Marshal(members)))
}

const good = `{"alg":"RS256","kid":"rsa"}`

// token returns a valid token with changed claims.
func token(change string) string { return signed(good, claims(change), "RS256", private["rsa"]) }

func TestTokensOfEachAlgorithmAreValid(t *testing.T) {
	keys := set(jwk("rsa", "rsa"), jwk("p256", "p256"), jwk("p384", "p384"), jwk("p521", "p521"), jwk("ed", "ed"), oct("hmac"))
	for algorithm, name := range map[string]string{
		"RS256": "rsa", "RS384": "rsa", "RS512": "rsa", "PS256": "rsa", "PS384": "rsa", "PS512": "rsa",
		"ES256": "p256", "ES384": "p384", "ES512": "p521", "EdDSA": "ed", "HS256": "hmac", "HS384": "hmac", "HS512": "hmac",
	} {
		t.Run(algorithm, func(t *testing.T) {
			terms := terms()
			terms.Algorithms = []string{algorithm}
			var key any = private[name]
			if name == "hmac" {
				key = []byte(secret)
			}
			for _, header := range []string{fmt.Sprintf(`{"alg":%q,"kid":%q}`, algorithm, name), fmt.Sprintf(`{"alg":%q}`, algorithm)} {
				outcome, got := verifier(terms, keys).Verify(signed(header, claims(`{}`), algorithm, key))
				if outcome != rules.JWTValid || !reflect.DeepEqual(got, []string{"ann"}) {
					t.Errorf("%s: %v, %q; want valid, ann", header, outcome, got)
				}
			}
		})
	}
}

func TestTimesOfTokens(t *testing.T) {
	at := func(seconds float64) string { return fmt.Sprintf("%.3f", float64(now.Unix())+seconds) }
	for _, c := range []struct {
		name, claims string
		want         rules.JWTOutcome
	}{
		{"before exp", `{"exp":` + at(0.001) + `}`, rules.JWTValid},
		{"within the leeway of exp", `{"exp":` + at(-59.999) + `}`, rules.JWTValid},
		{"at exp and leeway", `{"exp":` + at(-60) + `}`, rules.JWTExpired},
		{"exp in exponents", `{"exp":1e11}`, rules.JWTValid},
		{"exp long ago", `{"exp":0}`, rules.JWTExpired},
		{"exp negative", `{"exp":-1}`, rules.JWTExpired},
		{"nbf within the leeway", `{"nbf":` + at(60) + `}`, rules.JWTValid},
		{"nbf beyond the leeway", `{"nbf":` + at(60.001) + `}`, rules.JWTInvalid},
		{"nbf ahead and exp past", `{"nbf":` + at(600) + `,"exp":0}`, rules.JWTInvalid},
		{"expired of another issuer", `{"exp":0,"iss":"https://other.example/"}`, rules.JWTInvalid},
		{"expired for another audience", `{"exp":0,"aud":"other"}`, rules.JWTInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := verifier(terms(), all)
			for range 2 { // the second time it may be remembered
				if outcome, got := v.Verify(token(c.claims)); outcome != c.want || (outcome == rules.JWTValid) != (got != nil) {
					t.Errorf("%v, %q; want %v", outcome, got, c.want)
				}
			}
		})
	}
}

// A remembered token ends when it ends, and with its key.
func TestRememberedTokensEnd(t *testing.T) {
	clock, keys := now, all
	var wanted []string
	v := tokens.New(terms(), source{func() *tokens.Keys { return keys }, func(id string) { wanted = append(wanted, id) }}, tokens.Options{Now: func() time.Time { return clock }, Remembered: 4})
	text := token(`{}`)
	verify := func(want rules.JWTOutcome) {
		t.Helper()
		if outcome, _ := v.Verify(text); outcome != want {
			t.Errorf("%v; want %v", outcome, want)
		}
	}
	verify(rules.JWTValid)
	clock = now.Add(600*time.Second + 59*time.Second)
	verify(rules.JWTValid)
	clock = clock.Add(time.Second)
	verify(rules.JWTExpired)
	clock = now
	verify(rules.JWTValid)
	keys = set(jwk("new", "other-rsa"))
	verify(rules.JWTInvalid)
	if !reflect.DeepEqual(wanted, []string{"rsa"}) {
		t.Errorf("keys wanted: %q; want rsa", wanted)
	}
	keys = nil
	verify(rules.JWTUnavailable)
}

// A token whose signature no key has made is explained by what was tried, and a key that its
// header names in vain is wanted in any case.
func TestUnknownKeysAreExplained(t *testing.T) {
	for name, c := range map[string]struct {
		keys         *tokens.Keys
		header, want string
		isWanted     bool
	}{
		"a key with the kid":                {set(jwk("a", "rsa")), `{"alg":"RS256","kid":"a"}`, "its signature is wrong", false},
		"keys without kid":                  {set(jwk("", "rsa")), `{"alg":"RS256","kid":"a"}`, "its signature is wrong", true},
		"keys without kid, and another":     {set(jwk("b", "rsa"), jwk("", "p256"), jwk("", "rsa")), `{"alg":"RS256","kid":"a"}`, "its signature is wrong", true},
		"keys without kid of another alg":   {set(jwk("", "p256")), `{"alg":"RS256","kid":"a"}`, "no key has the kid of its header", true},
		"keys with other kids":              {set(jwk("b", "rsa")), `{"alg":"RS256","kid":"a"}`, "no key has the kid of its header", true},
		"a token without kid":               {set(jwk("b", "rsa")), `{"alg":"RS256"}`, "its signature is wrong", false},
		"a token without kid, another alg":  {set(jwk("b", "p256")), `{"alg":"RS256"}`, "no key fits the alg of its header", false},
		"a key with the kid of another alg": {set(jwk("a", "p256")), `{"alg":"RS256","kid":"a"}`, "no key fits the alg of its header", false},
	} {
		t.Run(name, func(t *testing.T) {
			isWanted := false
			from := source{func() *tokens.Keys { return c.keys }, func(id string) { isWanted = id == "a" }}
			v := tokens.New(terms(), from, tokens.Options{Now: func() time.Time { return now }})
			outcome, _, err := v.Explain(signed(c.header, claims(`{}`), "RS256", private["other-rsa"]))
			if outcome != rules.JWTInvalid || err == nil || err.Error() != c.want || isWanted != c.isWanted {
				t.Errorf("%v: %v, wanted: %v; want %s, %v", outcome, err, isWanted, c.want, c.isWanted)
			}
		})
	}
}

// Many valid tokens displace each other, and no invalid one displaces a valid one.
func TestRememberedTokensAreBounded(t *testing.T) {
	v := verifier(terms(), set(jwk("rsa", "rsa"), jwk("ed", "ed")))
	kept := token(`{}`)
	v.Verify(kept)
	for i := range 1000 {
		v.Verify(signed(`{"alg":"EdDSA","kid":"ed"}`, claims(fmt.Sprintf(`{"sub":"%d"}`, i)), "EdDSA", private["other-ed"]))
	}
	if !tokens.Remembers(v, kept) {
		t.Error("invalid tokens displaced a valid one")
	}
	for i := range 1000 {
		v.Verify(signed(`{"alg":"EdDSA","kid":"ed"}`, claims(fmt.Sprintf(`{"sub":"%d"}`, i)), "EdDSA", private["ed"]))
	}
	if n := tokens.Count(v); n > 100 || n < 50 {
		t.Errorf("%d tokens are remembered; want 50 to 100", n)
	}
	v.Verify(token(fmt.Sprintf(`{"sub":%q}`, strings.Repeat("x", 5000))))
	if tokens.Remembers(v, token(fmt.Sprintf(`{"sub":%q}`, strings.Repeat("x", 5000)))) {
		t.Error("a token with 5,000 bytes of claims is remembered")
	}
}

// Each verification is counted, with the outcome of one without a token to verify: a request with
// several tokens, or with an empty one.
func TestVerificationsAreCounted(t *testing.T) {
	var counted []string
	v := tokens.New(&rules.JWT{Name: "main"}, (*tokens.Keys)(nil), tokens.Options{
		Verified: func(name string, outcome rules.JWTOutcome) { counted = append(counted, name+" "+outcome.String()) },
	})
	for _, text := range []string{"", "x"} {
		v.Verify(text)
	}
	if want := []string{"main invalid", "main unavailable"}; !slices.Equal(counted, want) {
		t.Errorf("%q are counted; want %q", counted, want)
	}
}

// Why keys are not in use is told for ten of them, whatever a key is, and never with more than a
// part of its text.
func TestReasonsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, one := range map[string]string{
		"of an unknown type": `{"kty":"` + long + `"}`, "of an unknown algorithm": `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","alg":"` + long + `"}`,
		"of an unknown curve": `{"kty":"EC","crv":"` + long + `","x":"AA","y":"AA"}`, "with a control character": `{"kty":"\u001b[2J"}`,
	} {
		_, err := tokens.ParseKeys([]byte(`{"keys":[`+strings.Repeat(one+",", 7)+one+`]}`), false)
		if err == nil || len(err.Error()) > 8*300 || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s: an error of %d bytes: %.2000v", name, len(fmt.Sprint(err)), err)
		}
	}
	_, err := tokens.ParseKeys([]byte(`{"keys":[`+strings.Repeat("{},", 500)+`{}]}`), false)
	if text := fmt.Sprint(err); strings.Count(text, "; key ") != 9 || !strings.HasSuffix(text, "; 491 more have mistakes, too") {
		t.Errorf("501 keys with mistakes: %s", text)
	}
}

// A token that finds no free processor in time is neither valid nor invalid.
func TestBusyProcessorsLeaveTokensUnverified(t *testing.T) {
	turns := make(tokens.Turns, 1)
	v := tokens.New(terms(), all, tokens.Options{Turns: turns, Now: func() time.Time { return now }})
	turns <- struct{}{}
	if outcome, _ := v.Verify(token(`{}`)); outcome != rules.JWTUnavailable {
		t.Errorf("%v; want unavailable", outcome)
	}
	<-turns
	if outcome, _ := v.Verify(token(`{}`)); outcome != rules.JWTValid {
		t.Errorf("%v; want valid", outcome)
	}
	if len(turns) != 0 {
		t.Error("a place was not given back")
	}
}

func TestClaims(t *testing.T) {
	payload := `{"sub":"ann","n":7,"big":123456789012345678901234567890,"neg":-3,"frac":1.5,"exp10":1e3,"yes":true,"no":false,"nothing":null,
		"list":["a","b",3,["c"]],"scope":"read  write\tall other\u00a0root","obj":{"roles":["admin"],"deep":{"x":"y"}},"a.b":{"c":"dotted"},"empty":"","nul":"a\u0000b","":"no name"}`
	for _, c := range []struct {
		path []string
		has  string
		want string
	}{
		{[]string{"sub"}, "", "ann"},
		{[]string{"Sub"}, "", ""},
		{[]string{"n"}, "", "7"},
		{[]string{"big"}, "", "123456789012345678901234567890"},
		{[]string{"neg"}, "", "-3"},
		{[]string{"frac"}, "", ""},
		{[]string{"exp10"}, "", ""},
		{[]string{"yes"}, "", "true"},
		{[]string{"no"}, "", "false"},
		{[]string{"nothing"}, "", ""},
		{[]string{"list"}, "", ""},
		{[]string{"obj"}, "", ""},
		{[]string{"missing"}, "", ""},
		{[]string{"empty"}, "", ""},
		{[]string{"obj", "deep", "x"}, "", "y"},
		{[]string{"obj", "deep"}, "", ""},
		{[]string{"obj", "x"}, "", ""},
		{[]string{"sub", "x"}, "", ""},
		{[]string{"a.b", "c"}, "", "dotted"},
		{[]string{"nul"}, "", "a\x00b"},
		{[]string{"list"}, "a", "yes"},
		{[]string{"list"}, "c", ""},
		{[]string{"list"}, "3", ""},
		{[]string{"scope"}, "write", "yes"},
		{[]string{"scope"}, "wri", ""},
		{[]string{"scope"}, "all", "yes"},
		{[]string{"scope"}, "root", ""},
		{[]string{"scope"}, "other\u00a0root", "yes"},
		{[]string{"obj", "roles"}, "admin", "yes"},
		{[]string{"obj", "roles"}, "adm", ""},
		{[]string{"n"}, "7", ""},
		{[]string{"yes"}, "true", ""},
	} {
		t.Run(strings.Join(c.path, "/")+" "+c.has, func(t *testing.T) {
			terms := terms()
			terms.Claims = []rules.Claim{{Path: c.path, Has: c.has}}
			outcome, got := verifier(terms, all).Verify(token(payload))
			if outcome != rules.JWTValid || got[0] != c.want {
				t.Errorf("%v, %q; want %q", outcome, got, c.want)
			}
		})
	}
}

// Published files of keys have no secrets, usable or not.
func TestSecretsAreFound(t *testing.T) {
	public := jwk("a", "rsa")
	for name, text := range map[string]string{
		"oct": oct("a"), "a short oct": `{"kty":"oct","k":"AAAA"}`, "oct for signatures alone": `{"kty":"oct","k":"AAAA","key_ops":["sign"]}`, "oct for encryption": `{"kty":"oct","k":"AAAA","use":"enc"}`,
		"a private RSA key": string(must(jose.JSONWebKey{Key: private["rsa"]}.MarshalJSON())), "a private EC key": string(must(jose.JSONWebKey{Key: private["p256"]}.MarshalJSON())),
		"a private Ed25519 key": string(must(jose.JSONWebKey{Key: private["ed"]}.MarshalJSON())), "k in escapes": `{"kty":"oct","\u006b":"AAAA"}`,
	} {
		if !tokens.HasSecret([]byte(`{"x":[],"keys":[7,` + public + `,` + text + `]}`)) {
			t.Errorf("%s is not found", name)
		}
	}
	pkix := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(private["rsa"].Public()))})
	for _, kind := range []string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "OPENSSH PRIVATE KEY"} {
		if !tokens.HasSecret(append(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("x")}), pkix...)) {
			t.Errorf("%s is not found", kind)
		}
	}
	for name, text := range map[string]string{"a public key": `{"keys":[` + public + `]}`, "PEM": string(pkix), "nothing": "", "no keys": `{"keys":{}}`} {
		if tokens.HasSecret([]byte(text)) {
			t.Errorf("%s has a secret", name)
		}
	}
}

func TestKeys(t *testing.T) {
	pkix := func(name string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(private[name].Public()))}))
	}
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: must(x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: must(rand.Int(rand.Reader, private["rsa"].Public().(*rsa.PublicKey).N))}, &x509.Certificate{}, private["p256"].Public(), private["rsa"]))}))
	pkcs1 := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(private["rsa"].Public().(*rsa.PublicKey))}))
	privatePEM := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(private["rsa"]))}))
	keySet := func(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }
	for _, c := range []struct {
		name, text    string
		keys, skipped int // 0 keys: an error
	}{
		{"a set", keySet(jwk("a", "rsa"), jwk("b", "ed")), 2, 0},
		{"unknown members", `{"x":1,"keys":[` + jwk("a", "rsa", `"note":[1]`) + `]}`, 1, 0},
		{"an unknown type beside a known one", keySet(`{"kty":"XYZ","kid":"x"}`, jwk("a", "rsa")), 1, 1},
		{"a weak RSA key", keySet(jwk("a", "weak"), jwk("b", "ed")), 1, 1},
		{"only a weak RSA key", keySet(jwk("a", "weak")), 0, 0},
		{"use enc", keySet(jwk("a", "rsa", `"use":"enc"`)), 0, 0},
		{"use sig", keySet(jwk("a", "rsa", `"use":"sig"`)), 1, 0},
		{"key_ops sign", keySet(jwk("a", "rsa", `"key_ops":["sign"]`)), 0, 0},
		{"key_ops verify", keySet(jwk("a", "rsa", `"key_ops":["sign","verify"]`)), 1, 0},
		{"key_ops a text", keySet(jwk("a", "rsa", `"key_ops":"verify"`)), 0, 0},
		{"alg of another type", keySet(jwk("a", "rsa", `"alg":"ES256"`)), 0, 0},
		{"alg of encryption", keySet(jwk("a", "rsa", `"alg":"RSA-OAEP"`)), 0, 0},
		{"a repeated member in a key", keySet(`{"kty":"oct","k":"AAAA","k":"AAAA"}`), 0, 0},
		{"a point outside the curve", keySet(`{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"}`), 0, 0},
		{"a private key in a set", keySet(string(must(jose.JSONWebKey{Key: private["rsa"], KeyID: "a"}.MarshalJSON()))), 0, 0},
		{"a symmetric key", keySet(oct("a")), 1, 0},
		{"no keys", keySet(), 0, 0},
		{"keys that are no list", `{"keys":{}}`, 0, 0},
		{"a key that is no object", keySet(`7`, jwk("a", "rsa")), 1, 1},
		{"repeated keys", `{"keys":[],"keys":[` + jwk("a", "rsa") + `]}`, 0, 0},
		{"no set", `{"jwks":[]}`, 0, 0},
		{"text after the set", keySet(jwk("a", "rsa")) + "{}", 0, 0},
		{"nothing", "", 0, 0},
		{"HTML", "<html>", 0, 0},
		{"binary", "\x00\xff\xfe", 0, 0},
		{"more keys than the bound", keySet(strings.Repeat(`{"kty":"x"},`, tokens.MaxKeys) + jwk("a", "ed")), 0, 0},
		{"more bytes than the bound", keySet(jwk("a", "rsa")) + strings.Repeat(" ", tokens.MaxKeysText), 0, 0},
		{"PEM", pkix("rsa") + pkix("ed") + pkcs1 + certificate, 4, 0},
		{"PEM with text around", "the key:\n" + pkix("p384") + "end\n", 1, 0},
		{"a private key in PEM", privatePEM, 0, 0},
		{"a private key beside a public one", privatePEM + pkix("rsa"), 1, 1},
		{"a weak key in PEM", pkix("weak"), 0, 0},
		{"a truncated key in PEM", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", 0, 0},
		{"a head of PEM alone", "-----BEGIN PUBLIC KEY-----\n", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys, err := tokens.ParseKeys([]byte(c.text), true)
			if (err == nil) != (c.keys > 0) {
				t.Fatalf("error %v; want %d keys", err, c.keys)
			}
			if err == nil && (keys.Len() != c.keys || len(keys.Skipped) != c.skipped) {
				t.Errorf("%d keys, skipped %v; want %d and %d", keys.Len(), keys.Skipped, c.keys, c.skipped)
			}
		})
	}
	if _, err := tokens.ParseKeys([]byte(keySet(oct("a"))), false); err == nil {
		t.Error("a symmetric key was accepted from elsewhere than a file")
	}
}
