package tokens_test

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// hostileTokens returns tokens that must not be valid, by names that say why.
func hostileTokens() map[string]string {
	list := make(map[string]string)
	valid := token(`{}`)
	parts := strings.Split(valid, ".")
	head, payload, signature := parts[0], parts[1], parts[2]
	headerFaults(list)
	claimFaults(list)
	keyFaults(list)

	for name, text := range map[string]string{
		"empty": "", "a dot": ".", "two dots": "..", "three dots": "...", "one part": head, "two parts": head + "." + payload,
		"an empty signature": head + "." + payload + ".", "an empty payload": head + ".." + signature, "an empty header": "." + payload + "." + signature,
		"four parts": valid + ".", "five parts, as of encryption": head + "." + payload + "." + signature + ".x.y", "the JSON form": `{"payload":"` + payload + `","signatures":[{"protected":"` + head + `","signature":"` + signature + `"}]}`,
		"the flat JSON form": `{"payload":"` + payload + `","protected":"` + head + `","signature":"` + signature + `"}`,
		"a blank before":     " " + valid, "a blank after": valid + " ", "a line end after": valid + "\n", "a tab inside": head + ".\t" + payload + "." + signature,
		"a NUL after": valid + "\x00", "Bearer before": "Bearer " + valid, "quotes": `"` + valid + `"`, "twice": valid + "," + valid, "twice with a blank": valid + " " + valid,
		"a percent escape": strings.Replace(valid, ".", "%2E", 1), "dots of another script": strings.ReplaceAll(valid, ".", "\u3002"),
		"16 kB and a byte": signed(good, claims(fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 17000))), "RS256", private["rsa"]),
	} {
		list["form: "+name] = text
	}
	for i, part := range parts {
		with := func(changed string) string {
			all := append([]string(nil), parts...)
			all[i] = changed
			return strings.Join(all, ".")
		}
		name := []string{"header", "payload", "signature"}[i]
		for kind, changed := range map[string]string{
			"padding": part + "=", "much padding": part + "====", "a line end inside": part[:5] + "\n" + part[5:], "CRLF inside": part[:5] + "\r\n" + part[5:],
			"a blank inside": part[:5] + " " + part[5:], "standard characters": "+/" + part[2:], "one character more": part + "A", "one character less": part[:len(part)-1],
			"its first half": part[:len(part)/2], "repeated": part + part, "another first character": flip(part, 0), "another last character": flip(part, len(part)-1),
			"another middle character": flip(part, len(part)/2), "in capitals": strings.ToUpper(part), "not base64": "!!!!", "binary": "\xff\xfe\xfd",
		} {
			list["base64 of the "+name+": "+kind] = with(changed)
		}
		if unused := unusedBits(part); unused != "" {
			list["base64 of the "+name+": unused bits"] = with(unused)
		}
	}
	for name, other := range map[string]string{"other claims": encode(claims(`{"sub":"root"}`)), "a list": encode("[]"), "null": encode("null")} {
		list["payload replaced: "+name] = head + "." + other + "." + signature
	}
	return list
}

// flip replaces a character of base64.
func flip(s string, at int) string {
	c := byte('A')
	if s[at] == c {
		c = 'Q'
	}
	return s[:at] + string(c) + s[at+1:]
}

// unusedBits returns another text that lenient decoders read as the same bytes; "" without one.
func unusedBits(part string) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	want, _ := base64.RawURLEncoding.DecodeString(part)
	for i := range digits {
		other := part[:len(part)-1] + digits[i:i+1]
		if got, err := base64.RawURLEncoding.DecodeString(other); err == nil && other != part && string(got) == string(want) {
			return other
		}
	}
	return ""
}

// headerFaults adds tokens with faults of the header, signed by a key in force.
func headerFaults(list map[string]string) {
	for name, header := range map[string]string{
		"no alg": `{}`, "alg null": `{"alg":null}`, "alg empty": `{"alg":""}`, "alg a number": `{"alg":256}`, "alg a list": `{"alg":["RS256"]}`, "alg in small letters": `{"alg":"rs256"}`,
		"ALG": `{"ALG":"RS256"}`, "Alg": `{"Alg":"RS256"}`, "alg with a blank": `{"alg":"RS256 "}`, "alg with a NUL": `{"alg":"RS256\u0000"}`, "alg unknown": `{"alg":"XX256"}`,
		"alg none": `{"alg":"none"}`, "alg None": `{"alg":"None"}`, "alg nOnE": `{"alg":"nOnE"}`, "alg ES256K": `{"alg":"ES256K"}`, "alg of encryption": `{"alg":"RSA-OAEP","enc":"A256GCM"}`,
		"alg twice": `{"alg":"RS256","alg":"RS256"}`, "alg none, then RS256": `{"alg":"none","alg":"RS256"}`, "alg twice, once escaped": `{"alg":"RS256","\u0061lg":"RS256"}`,
		"alg of another key type": `{"alg":"ES256","kid":"rsa"}`, "alg of another hash": `{"alg":"RS512","kid":"rsa"}`, "alg PSS for PKCS 1": `{"alg":"PS256","kid":"rsa"}`,
		"alg HS256": `{"alg":"HS256","kid":"rsa"}`, "a repeated member": `{"alg":"RS256","x":1,"x":2}`, "a repeated member inside": `{"alg":"RS256","x":{"y":1,"y":1}}`,
		"a repeated member in a list": `{"alg":"RS256","x":[{"y":1,"y":1}]}`, "crit": `{"alg":"RS256","crit":["exp"],"exp":1}`, "crit empty": `{"alg":"RS256","crit":[]}`,
		"b64 false": `{"alg":"RS256","b64":false}`, "b64 a text": `{"alg":"RS256","b64":"true"}`, "b64 null": `{"alg":"RS256","b64":null}`,
		"crit null": `{"alg":"RS256","crit":null}`, "crit b64": `{"alg":"RS256","crit":["b64"],"b64":false}`, "crit true": `{"alg":"RS256","crit":true}`,
		"kid a number": `{"alg":"RS256","kid":1}`, "kid null": `{"alg":"RS256","kid":null}`, "kid a list": `{"alg":"RS256","kid":["rsa"]}`, "kid unknown": `{"alg":"RS256","kid":"other"}`,
		"kid empty": `{"alg":"RS256","kid":""}`, "kid in capitals": `{"alg":"RS256","kid":"RSA"}`, "kid with a blank": `{"alg":"RS256","kid":" rsa"}`, "kid a path": `{"alg":"RS256","kid":"../../dev/null"}`,
		"kid an injection": `{"alg":"RS256","kid":"rsa' OR '1'='1"}`, "kid twice": `{"alg":"RS256","kid":"rsa","kid":"rsa"}`, "kid of another algorithm": `{"alg":"RS256","kid":"ed"}`,
		"typ a number": `{"alg":"RS256","typ":1}`, "typ null": `{"alg":"RS256","typ":null}`, "not UTF-8": "{\"alg\":\"RS256\",\"x\":\"\xff\"}", "half a surrogate": `{"alg":"RS256","x":"\ud800"}`,
		"a list": `["RS256"]`, "null": `null`, "a text": `"RS256"`, "a number": `1`, "nothing": ``, "a blank": ` `, "text after": `{"alg":"RS256"}x`, "an object after": `{"alg":"RS256"}{}`,
		"a NUL after": "{\"alg\":\"RS256\"}\x00", "a byte order mark": "\ufeff{\"alg\":\"RS256\"}", "a comment": `{"alg":"RS256"/**/}`, "a comma at the end": `{"alg":"RS256",}`, "single quotes": `{'alg':'RS256'}`,
		"no end": `{"alg":"RS256"`, "a control character": "{\"alg\":\"RS256\",\"x\":\"\n\"}", "NaN": `{"alg":"RS256","x":NaN}`, "a leading zero": `{"alg":"RS256","x":01}`, "UTF-16": "\xff\xfe{\x00}\x00",
		"deep": `{"alg":"RS256","x":` + strings.Repeat("[", 11000) + strings.Repeat("]", 11000) + `}`, "many members, one repeated": `{"alg":"RS256"` + strings.Repeat(`,"a":1`, 500) + `}`,
	} {
		list["header: "+name] = signed(header, claims(`{}`), "RS256", private["rsa"])
	}
}

// claimFaults adds tokens with faults of the payload, signed by a key in force.
func claimFaults(list map[string]string) {
	for name, change := range map[string]string{
		"no iss": `{"iss":null}`, "iss empty": `{"iss":""}`, "iss of another": `{"iss":"https://other.example/"}`, "iss without its slash": `{"iss":"https://id.example.com"}`,
		"iss with a slash more": `{"iss":"https://id.example.com//"}`, "iss in capitals": `{"iss":"HTTPS://ID.EXAMPLE.COM/"}`, "iss with a suffix": `{"iss":"https://id.example.com/.evil.example"}`,
		"iss with a blank": `{"iss":"https://id.example.com/ "}`, "iss with a NUL": `{"iss":"https://id.example.com/\u0000"}`, "iss a list": `{"iss":["https://id.example.com/"]}`, "iss a number": `{"iss":1}`, "iss an object": `{"iss":{}}`,
		"no aud": `{"aud":null}`, "aud of another": `{"aud":"other"}`, "aud empty": `{"aud":""}`, "aud an empty list": `{"aud":[]}`, "aud a list of others": `{"aud":["x","y"]}`, "aud in capitals": `{"aud":"API"}`,
		"aud with words": `{"aud":"api web"}`, "aud with a comma": `{"aud":"api,web"}`, "aud a number": `{"aud":1}`, "aud an object": `{"aud":{"api":true}}`, "aud a list in a list": `{"aud":[["api"]]}`, "aud a list with a number": `{"aud":["api",1]}`, "aud a list with null": `{"aud":[null,"api"]}`, "aud a prefix": `{"aud":"ap"}`, "aud a suffix": `{"aud":"api2"}`,
		"no exp": `{"exp":null}`, "exp a text": `{"exp":"4000000000"}`, "exp true": `{"exp":true}`, "exp a list": `{"exp":[4000000000]}`, "exp an object": `{"exp":{}}`, "exp beyond all numbers": `{"exp":1e999}`, "exp below all numbers": `{"exp":-1e999}`,
		"nbf a text": `{"nbf":"1"}`, "nbf true": `{"nbf":true}`, "nbf a list": `{"nbf":[1]}`, "nbf ahead": `{"nbf":4000000000}`, "nbf beyond all numbers": `{"nbf":1e999}`,
	} {
		// encoding/json refuses some of these numbers, and null removes a member.
		if strings.Contains(change, "e999") {
			list["claim: "+name] = signed(good, strings.Replace(claims(`{"exp":0}`), `"exp":0`, strings.Trim(change, "{}")+`,"x":0`, 1), "RS256", private["rsa"])
			continue
		}
		list["claim: "+name] = token(change)
	}
	base := strings.TrimSuffix(claims(`{}`), "}")
	for name, payload := range map[string]string{
		"sub twice": base + `,"sub":"root"}`, "iss twice": base + `,"iss":"https://id.example.com/"}`, "exp twice": base + `,"exp":4000000000}`, "aud twice": base + `,"aud":"api"}`, "a repeated member": base + `,"x":1,"x":1}`,
		"a repeated member inside": base + `,"x":{"y":1,"y":2}}`, "a repeated member, once escaped": base + `,"s\u0075b":"root"}`, "not UTF-8": base + ",\"x\":\"\xff\"}", "overlong UTF-8": base + ",\"x\":\"\xc0\xaf\"}",
		"half a surrogate": base + `,"x":"\udfff"}`, "a surrogate in UTF-8": base + ",\"x\":\"\xed\xa0\x80\"}", "text after": base + `}x`, "an object after": base + `}{}`, "two objects": base + "}\n" + base + "}", "a NUL after": base + "}\x00",
		"a byte order mark": "\ufeff" + base + "}", "no end": base, "a comma at the end": base + ",}", "a comment": base + "/**/}", "null": "null", "a list": "[]", "a list of one": "[" + base + "}]", "a text": `"ann"`, "a number": "1", "nothing": "", "a blank": " ",
		"a token": token(`{}`), "IN CAPITALS": strings.ToUpper(base) + "}", "members without quotes": `{iss:"https://id.example.com/"}`, "NaN": base + `,"x":NaN}`, "Infinity": base + `,"x":Infinity}`, "hexadecimal": base + `,"x":0x1}`, "a plus sign": base + `,"x":+1}`,
		"a control character": base + ",\"x\":\"\t\"}", "an unknown escape": base + `,"x":"\x41"}`, "a line end of JavaScript in a name twice": base + ",\"\u2028\":1,\"\u2028\":1}",
		"thousands of members, one twice": base + manyMembers(1500) + `,"m7":1}`,
	} {
		list["payload: "+name] = signed(good, payload, "RS256", private["rsa"])
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":1`, i)
	}
	return b.String()
}

// keyFaults adds tokens that another key has signed, or that bring their own.
func keyFaults(list map[string]string) {
	rsaText := jwk("rsa", "rsa")
	for name, t := range map[string]string{
		"another RSA key": signed(good, claims(`{}`), "RS256", private["other-rsa"]), "a weak RSA key": signed(good, claims(`{}`), "RS256", private["weak"]),
		"another P-256 key": signed(`{"alg":"ES256","kid":"p256"}`, claims(`{}`), "ES256", private["other-p256"]), "another Ed25519 key": signed(`{"alg":"EdDSA","kid":"ed"}`, claims(`{}`), "EdDSA", private["other-ed"]),
		"its own key in jwk":                     signed(`{"alg":"RS256","kid":"rsa","jwk":`+jwk("rsa", "other-rsa")+`}`, claims(`{}`), "RS256", private["other-rsa"]),
		"its own key in jwk without kid":         signed(`{"alg":"RS256","jwk":`+jwk("x", "other-rsa")+`}`, claims(`{}`), "RS256", private["other-rsa"]),
		"its own key by jku":                     signed(`{"alg":"RS256","kid":"rsa","jku":"https://evil.example/keys"}`, claims(`{}`), "RS256", private["other-rsa"]),
		"its own key by x5u":                     signed(`{"alg":"RS256","x5u":"https://evil.example/cert"}`, claims(`{}`), "RS256", private["other-rsa"]),
		"its own key in x5c":                     signed(`{"alg":"RS256","x5c":["AAAA"]}`, claims(`{}`), "RS256", private["other-rsa"]),
		"HMAC with the public key as JWK":        signed(`{"alg":"HS256","kid":"rsa"}`, claims(`{}`), "HS256", []byte(rsaText)),
		"HMAC with an empty key":                 signed(`{"alg":"HS256"}`, claims(`{}`), "HS256", []byte("")),
		"HMAC with the secret of nobody":         signed(`{"alg":"HS512"}`, claims(`{}`), "HS512", []byte(secret)),
		"its own key in jwk, of an unknown type": signed(`{"alg":"RS256","kid":"rsa","jwk":{"kty":"XYZ"}}`, claims(`{}`), "RS256", private["other-rsa"]),
		"a payload that is signed unencoded":     unencoded(),
		"ECDSA in DER instead of two numbers":    derSignature(),
		"ECDSA of zeros":                         encode(`{"alg":"ES256","kid":"p256"}`) + "." + encode(claims(`{}`)) + "." + encode(strings.Repeat("\x00", 64)),
		"ECDSA of zeros without a key ID":        encode(`{"alg":"ES256"}`) + "." + encode(claims(`{}`)) + "." + encode(strings.Repeat("\x00", 64)),
		"ECDSA of 1s":                            encode(`{"alg":"ES256","kid":"p256"}`) + "." + encode(claims(`{}`)) + "." + encode(strings.Repeat("\x01", 64)),
		"ECDSA of another length":                encode(`{"alg":"ES256","kid":"p256"}`) + "." + encode(claims(`{}`)) + "." + encode(strings.Repeat("\x01", 96)),
		"Ed25519 of zeros":                       encode(`{"alg":"EdDSA","kid":"ed"}`) + "." + encode(claims(`{}`)) + "." + encode(strings.Repeat("\x00", 64)),
		"RSA of zeros":                           encode(good) + "." + encode(claims(`{}`)) + "." + encode(strings.Repeat("\x00", 256)), "RSA of ones": encode(good) + "." + encode(claims(`{}`)) + "." + encode(strings.Repeat("\xff", 256)),
		"none without a signature": encode(`{"alg":"none"}`) + "." + encode(claims(`{}`)) + ".", "none with a signature": encode(`{"alg":"none"}`) + "." + encode(claims(`{}`)) + "." + encode("x"),
		"the P-384 key's ID with P-256": signed(`{"alg":"ES256","kid":"p384"}`, claims(`{}`), "ES256", private["p256"]),
	} {
		list["key: "+name] = t
	}
}

// derSignature is a token whose signature a library other than of JOSE encoded.
func derSignature() string {
	input := encode(`{"alg":"ES256","kid":"p256"}`) + "." + encode(claims(`{}`))
	sum := sha256.Sum256([]byte(input))
	der := must(private["p256"].Sign(rand.Reader, sum[:], crypto.SHA256))
	return input + "." + encode(string(der))
}

// unencoded is a token whose signature is of the payload without base64url (RFC 7797).
func unencoded() string {
	header := encode(`{"alg":"RS256","kid":"rsa","b64":false}`)
	signature := must(jwt.SigningMethodRS256.Sign(header+"."+claims(`{}`), private["rsa"]))
	return header + "." + encode(claims(`{}`)) + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestHostileTokensAreInvalid(t *testing.T) {
	list := hostileTokens()
	if len(list) < 200 {
		t.Errorf("only %d tokens; want 200", len(list))
	}
	v := verifier(terms(), all)
	for name, text := range list {
		if outcome, got := v.Verify(text); outcome != rules.JWTInvalid || got != nil {
			t.Errorf("%s: %v, %q; want invalid", name, outcome, got)
		}
	}
	if n := tokens.Count(v); n != 0 {
		t.Errorf("%d of them are remembered", n)
	}
}

// What a header says about keys is ignored, whatever it is: the keys of the line decide.
func TestKeysOfHeadersAreIgnored(t *testing.T) {
	weak := jwk("x", "weak")
	for name, value := range map[string]string{
		"null": "null", "true": "true", "a number": "7", "a text": `"x"`, "an empty text": `""`, "a list": `["x"]`, "an empty list": `[]`, "an object": `{}`, "nested": `{"a":[{"b":[]}]}`,
		"a key of an unknown type": `{"kty":"XYZ"}`, "a key without its members": `{"kty":"RSA"}`, "a point outside its curve": `{"kty":"EC","crv":"P-256","x":"AQ","y":"AQ"}`,
		"a public key": jwk("x", "rsa"), "another public key": jwk("x", "other-rsa"), "a weak key": weak, "a secret": oct("x"),
		"a private key": string(must(jose.JSONWebKey{Key: private["other-rsa"]}.MarshalJSON())), "no certificate": `["AAAA"]`, "no base64": `["!"]`, "half a certificate": `["MIIB"]`,
		"an address": `"https://evil.example/keys"`, "an address of a file": `"file:///etc/passwd"`, "many": `["` + strings.Repeat(`","`, 2000) + `"]`,
	} {
		for _, member := range []string{"jku", "jwk", "x5u", "x5c"} {
			t.Run(member+" "+name, func(t *testing.T) {
				header := fmt.Sprintf(`{"alg":"RS256","kid":"rsa",%q:%s}`, member, value)
				for key, want := range map[string]rules.JWTOutcome{"rsa": rules.JWTValid, "other-rsa": rules.JWTInvalid, "weak": rules.JWTInvalid} {
					if outcome, _ := verifier(terms(), all).Verify(signed(header, claims(`{}`), "RS256", private[key])); outcome != want {
						t.Errorf("signed by %s: %v; want %v", key, outcome, want)
					}
				}
			})
		}
	}
}

// second reports whether another library of JOSE finds a token valid, and its subject.
func second(text string) (string, error) {
	all := jwt.MapClaims{}
	_, err := jwt.NewParser(jwt.WithStrictDecoding(), jwt.WithValidMethods(public), jwt.WithIssuer("https://id.example.com/"),
		jwt.WithExpirationRequired(), jwt.WithTimeFunc(func() time.Time { return now }), jwt.WithLeeway(time.Minute), jwt.WithJSONNumber(), jwt.WithAudience("api", "web")).
		ParseWithClaims(text, all, func(t *jwt.Token) (any, error) {
			if id, ok := t.Header["kid"].(string); ok && private[id] != nil {
				return private[id].Public(), nil
			}
			list := jwt.VerificationKeySet{}
			for _, name := range []string{"rsa", "p256", "p384", "p521", "ed"} {
				list.Keys = append(list.Keys, private[name].Public())
			}
			return list, nil
		})
	subject, _ := all["sub"].(string)
	return subject, err
}

// third reports whether a library of JOSE that shares no code with this package's checks of
// signatures finds the one of a token valid. It refuses forms of jwk and x5c, which are ignored here.
func third(text string) error {
	head, _ := base64.RawURLEncoding.DecodeString(text[:strings.IndexByte(text, '.')])
	var header map[string]json.RawMessage
	if err := json.Unmarshal(head, &header); err != nil || header["jwk"] != nil || header["x5c"] != nil {
		return err
	}
	algorithms := make([]jose.SignatureAlgorithm, len(public))
	for i, name := range public {
		algorithms[i] = jose.SignatureAlgorithm(name)
	}
	token, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		return err
	}
	for _, name := range []string{"rsa", "p256", "p384", "p521", "ed"} {
		if _, err = token.Verify(private[name].Public()); err == nil {
			return nil
		}
	}
	return err
}

// Whatever a token looks like, nothing that another library refuses is valid, and both read
// the same claims.
func FuzzVerify(f *testing.F) {
	add := func(text string) {
		if parts := strings.Split(text, "."); len(parts) == 3 {
			header, err1 := base64.RawURLEncoding.DecodeString(parts[0])
			payload, err2 := base64.RawURLEncoding.DecodeString(parts[1])
			if err1 == nil && err2 == nil {
				f.Add(string(header), string(payload), text)
			}
		}
	}
	add(token(`{}`))
	add(token(`{"aud":["x","web"],"nbf":1}`))
	for _, text := range hostileTokens() {
		add(text)
	}
	v := verifier(terms(), all)
	f.Fuzz(func(t *testing.T, header, payload, text string) {
		for _, text := range []string{text, signed(header, payload, "RS256", private["rsa"]), signed(header, payload, "EdDSA", private["ed"])} {
			outcome, got := v.Verify(text)
			if outcome != rules.JWTValid {
				continue
			}
			subject, err := second(text)
			if err == nil {
				err = third(text)
			}
			if err != nil {
				t.Fatalf("%q is valid; another library: %v", text, err)
			}
			var plain struct{ Sub json.RawMessage }
			if got[0] != subject && json.Unmarshal([]byte(payload), &plain) == nil && strings.HasPrefix(string(plain.Sub), `"`) {
				t.Fatalf("%q: the subject is %q; another library: %q", text, got[0], subject)
			}
		}
	})
}
