package mapping

import (
	"net/url"
	"testing"
)

func TestQueryValue(t *testing.T) {
	for _, c := range []struct{ name, query, want string }{
		{"alone", "q=go", "go"},
		{"among others", "a=b&q=go&c=d", "go"},
		{"the first counts", "q=1&q=2", "1"},
		{"the first counts, empty or not", "q=&q=2", ""},
		{"plus is a blank", "q=a+b", "a b"},
		{"escapes", "q=%61%2Bb%26", "a+b&"},
		{"decoded once", "q=%2561", "%61"},
		{"an encoded name is the name", "%71=go", "go"},
		{"a broken escape is itself", "q=%zz%4", "%zz%4"},
		{"a broken escape before it", "%=1&q=go", "go"},
		{"an equals sign in the value", "q=a=b", "a=b"},
		{"a semicolon separates nothing", "q=a;b", "a;b"},
		{"what net/url passes over goes behind what it reads", "q=%zz&q=a;b&q=%&q=go&q=2", "go"},
		{"of several that it passes over the first", "q=%zz&q=a;b", "%zz"},
		{"an empty one counts as well", "q=%zz&q=&q=go", ""},
		{"arguments without a value", "&x&&q=go", "go"},
		{"without a value", "q", ""},
		{"a NUL and no UTF-8", "q=%00%ff", "\x00\xff"},
		{"absent", "a=b", ""},
		{"empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := queryValue(c.query, "q"); got != c.want {
				t.Errorf("the argument q of %q is %q, want %q", c.query, got, c.want)
			}
		})
	}
}

// The value must be the argument that net/url returns.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{"q=go&q=2", "a=b&q=%61+b", "q=%zz&q=a;b&q=go", "&;q=1&=2&q"} {
		f.Add(query, "q")
	}
	f.Fuzz(func(t *testing.T, query, name string) {
		got := queryValue(query, name)
		values, _ := url.ParseQuery(query) // has what could be read
		if all, ok := values[name]; ok && got != all[0] {
			t.Fatalf("the argument %q of %q is %q; net/url returns %q", name, query, got, all[0])
		}
	})
}
