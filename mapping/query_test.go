package mapping

import "testing"

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
