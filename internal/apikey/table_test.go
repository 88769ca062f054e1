package apikey

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const hash1, hash2 = "11111111aaaaaaaaaaaaaaaaaaaaaaaa", "11111111bbbbbbbbbbbbbbbbbbbbbbbb"

var today = time.Date(2026, 2, 3, 23, 30, 0, 0, time.UTC)

func TestAddKeepsTheBytes(t *testing.T) {
	cells := []Cell{{"tenant", ` a,"b" `}, {"expires", "2026-12-31"}}
	const row = hash2 + `,"a,""b""",2026-02-03,2026-12-31`
	for name, c := range map[string]struct{ text, added string }{
		"lines":            {"key,tenant,created,expires\n" + hash1 + ",x,,\n", row + "\n"},
		"CRLF":             {"key,tenant,created,expires\r\n" + hash1 + ",x,,\r\n", row + "\r\n"},
		"no end":           {"key,tenant,created,expires\n" + hash1 + ",x,,", "\n" + row + "\n"},
		"CRLF, no end":     {"key,tenant,created,expires\r\n" + hash1 + ",x,,", "\r\n" + row + "\r\n"},
		"header alone":     {"key,tenant,created,expires", "\n" + row + "\n"},
		"byte order mark":  {"\ufeffkey,tenant,created,expires\n", row + "\n"},
		"blank lines":      {"\n\nkey , tenant, created ,expires\n\n\n", row + "\n"},
		"quoted cells":     {"\"key\",tenant,\"created\",expires\n \"" + hash1 + "\" ,\"a\nb\"\"\n\",,\n", row + "\n"},
		"other key column": {"id,tenant,created,expires\n" + hash1 + ",x,,\n", row + "\n"},
	} {
		table, err := Parse("keys.csv", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := table.Add(hash2, cells, today)
		if err != nil || string(got) != c.text+c.added {
			t.Errorf("%s: %q, %v; want the text and %q", name, got, err, c.added)
			continue
		}
		if table, err = Parse("keys.csv", got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		back, removed, err := table.Remove(hash2[:12])
		if err != nil || removed.ID() != hash2 || removed[1] != `a,"b"` || !bytes.HasPrefix(back, []byte(c.text)) || bytes.Contains(back, []byte(hash2)) {
			t.Errorf("%s: %q, %q, %v after removing", name, back, removed, err)
		}
	}
}

func TestFindingsRefuse(t *testing.T) {
	const head = "key,tenant,created,expires\n"
	for text, want := range map[string]string{
		"":                                       "no header",
		"tenant,plan\n":                          "no key column",
		"tenant,plan\nacme,free\n":               "keys.csv:2: the first cell is no hash",
		head + strings.ToUpper(hash1) + ",x,,\n": "lower case",
		head + hash1 + ",x\n":                    "the row has 2 cells",
		head + hash1 + ",x,,\n" + hash1 + ",y,,\n": "occurs twice",
		head + hash1 + ",\"x,,\n":                  "not closed",
		head + hash1 + ",\xff,,\n":                 "UTF-8",
		"key,a,a\n":                                "occurs twice",
		"key,a b\n":                                "invalid column name",
		"key,a\x00\n":                              "NUL",
	} {
		if _, err := Parse("keys.csv", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	table, err := Parse("keys.csv", []byte(head))
	if err != nil {
		t.Fatal(err)
	}
	for want, cells := range map[string][]Cell{
		`no column "plan"`:        {{"plan", "x"}},
		"is the key":              {{"key", "x"}},
		"today's date":            {{"created", "2026-01-01"}},
		"occurs twice":            {{"tenant", "a"}, {"tenant", "b"}},
		"control character":       {{"tenant", "a\nb"}},
		"has a control":           {{"tenant", "a\tb"}},
		"has a control char":      {{"tenant", "\u0085"}},
		"not UTF-8":               {{"tenant", "\xff"}},
		`expires is "2026-02-30"`: {{"expires", "2026-02-30"}},
		`expires is "soon"`:       {{"expires", "soon"}},
		"last day":                {{"expires", "2026-01-01T10:00"}},
		`expires is "12345`:       {{"expires", "1234567890"}},
	} {
		if got, err := table.Add(hash1, cells, today); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %q", cells, got, err, want)
		}
	}
}

func TestRemoveNeedsOneKey(t *testing.T) {
	table, err := Parse("keys.csv", []byte("key\n"+hash1+"\n"+hash2+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"11111111": "several keys", "1111111": "8 or more", "": "8 or more", "1111111g": "8 or more", "22222222": "has no key", hash1 + "0": "8 or more",
	} {
		if _, _, err := table.Remove(id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", id, err, want)
		}
	}
	if text, _, err := table.Remove("11111111A"); err != nil || string(text) != "key\n"+hash2+"\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestVerify(t *testing.T) {
	key, err := New("live", bytes.NewReader(make([]byte, 64)))
	if err != nil {
		t.Fatal(err)
	}
	other, err := New("live", bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		expires, key string
		zone         *time.Location
		want         error
	}{
		{"", key, time.UTC, nil},
		{"2026-02-03", key, time.UTC, nil},
		{"2026-02-03", key, berlin, ErrExpired}, // it is the 4th there
		{"2026-02-02", key, time.UTC, ErrExpired},
		{"2026-02-03T23:31", key, time.UTC, nil},
		{strconv.FormatInt(today.Unix(), 10), key, time.UTC, ErrExpired},
		{"", other, time.UTC, ErrUnknown},
		{"", key[:len(key)-1] + "0", time.UTC, ErrMistyped},
		{"", "secret", time.UTC, ErrForm},
	} {
		table, err := Parse("keys.csv", []byte("key,expires\n"+Hash(key)+","+c.expires+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		row, err := table.Verify(c.key, today, c.zone)
		if !errors.Is(err, c.want) || (row != nil) != (c.key == key) {
			t.Errorf("%+v: %q, %v", c, row, err)
		}
	}
	table, err := Parse("keys.csv", []byte("key,expires\n"+Hash("of another program")+",soon\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Verify("of another program", today, time.UTC); err == nil || !strings.Contains(err.Error(), `"soon"`) {
		t.Errorf("an unreadable date: %v", err)
	}
}

// Whatever the table is, a change leaves all other rows as they are.
func FuzzTable(f *testing.F) {
	f.Add("key,tenant\n"+hash1+",x\n", "acme")
	f.Add("\ufeffkey,\"tenant\"\r\n \""+hash1+"\" , \"a\r\n\"\"b\" \r\n\r\n"+hash2+",", `a,"b"`)
	f.Fuzz(func(t *testing.T, text, cell string) {
		before, err := Parse("keys.csv", []byte(text))
		if err != nil || len(before.Columns()) < 2 {
			return
		}
		const added = "ffffffffffffffffffffffffffffffff"
		column := before.Columns()[1]
		next, err := before.Add(added, []Cell{{column, cell}}, today)
		if err != nil {
			return
		}
		after, err := Parse("keys.csv", next)
		if err != nil {
			t.Fatal(err)
		}
		rows := rowsOf(after)
		if last := rows[len(rows)-1]; last.ID() != added || last[1] != strings.TrimSpace(cell) {
			t.Errorf("the cell %q is read as %q", cell, last)
		}
		want := rowsOf(before)
		if !slices.EqualFunc(rows[:len(rows)-1], want, slices.Equal[Row]) {
			t.Errorf("%q becomes %q", want, rows)
		}
		for i, row := range rows {
			if len(rows) == 1 {
				break
			}
			left, _, err := after.Remove(row.ID())
			if err != nil {
				t.Fatal(err)
			}
			table, err := Parse("keys.csv", left)
			if err != nil || !slices.EqualFunc(rowsOf(table), slices.Delete(slices.Clone(rows), i, i+1), slices.Equal[Row]) {
				t.Fatalf("%q without row %d is %q, %v", next, i, left, err)
			}
		}
	})
}

func rowsOf(t *Table) []Row {
	var list []Row
	for row := range t.Rows() {
		list = append(list, slices.Clone(row))
	}
	return list
}
