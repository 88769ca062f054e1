package apikey

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
)

// The check digits are the CRC-32 in base62, as other programs compute it.
func TestKeysHaveKnownCheckDigits(t *testing.T) {
	for text, want := range map[string]string{
		"123456789": "3jZRME", // CRC-32 cbf43926
		"":          "000000",
	} {
		if got := string(appendCheck(nil, []byte(text))); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestNewKeysAreValid(t *testing.T) {
	for _, prefix := range []string{"koala", "a", "live_eu_1", "z" + strings.Repeat("_", 31)} {
		key, err := New(prefix, rand.Reader)
		if err != nil || len(key) != len(prefix)+39 || !strings.HasPrefix(key, prefix+"_") || len(key) > MaxLength {
			t.Fatalf("%s: %q, %v", prefix, key, err)
		}
		if err := Check(key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, prefix := range []string{"", "A", "1a", "_a", "a-b", "aB", "ä", "a\n", strings.Repeat("a", 33)} {
		if key, err := New(prefix, rand.Reader); err == nil {
			t.Errorf("the prefix %q makes %s", prefix, key)
		}
	}
}

// Bytes that would make some digits likelier than others are left out.
func TestDigitsAreDrawnEvenly(t *testing.T) {
	count := make(map[byte]int)
	for b := range 248 {
		key, err := New("k", bytes.NewReader(bytes.Repeat([]byte{byte(b)}, 64)))
		if err != nil {
			t.Fatal(err)
		}
		count[key[2]]++
	}
	for _, c := range []byte(digits) {
		if count[c] != 4 {
			t.Errorf("%c stands for %d bytes; want 4", c, count[c])
		}
	}
	// The bytes 248 to 255 would be 0 to 7 again.
	key, err := New("k", io.MultiReader(bytes.NewReader(bytes.Repeat([]byte{255, 248, 9}, 64)), rand.Reader))
	if err != nil || key[2:34] != strings.Repeat("9", 32) {
		t.Errorf("%s, %v: bytes from 248 on were used", key, err)
	}
	if _, err := New("k", strings.NewReader("short")); err == nil {
		t.Error("a key without enough randomness")
	}
}

// Every single mistyped character of a key is noticed.
func TestMistypedKeysAreNoticed(t *testing.T) {
	key, err := New("live", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for i := len("live_"); i < len(key); i++ {
		for _, c := range digits {
			typed := key[:i] + string(c) + key[i+1:]
			if err := Check(typed); typed != key && !errors.Is(err, ErrMistyped) {
				t.Errorf("%s for %s: %v", typed, key, err)
			}
		}
	}
	for _, text := range []string{"", "_", key[1:], key + "0", key[:len(key)-1], "Live" + key[4:], key[5:], strings.Repeat("_", 40), key[:len(key)-1] + "-"} {
		if err := Check(text); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("koala_00000000000000000000000000000000000000")
	f.Add("_")
	f.Fuzz(func(t *testing.T, text string) {
		if Check(text) != nil {
			return
		}
		end := len(text) - checkLength
		if got := string(appendCheck(nil, []byte(text[:end]))); got != text[end:] || len(text) > MaxLength {
			t.Errorf("%q is accepted; its check digits are %s", text, got)
		}
	})
}
