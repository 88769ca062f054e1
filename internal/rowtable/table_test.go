package rowtable

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

func TestTableFindsItsRows(t *testing.T) {
	for _, columns := range []int{0, 1, 2, 15, 16, 17, 33, 1000} {
		t.Run(fmt.Sprintf("%d columns", columns), func(t *testing.T) {
			var b Builder
			const rows = 60
			cell := func(row, i int) string { return strings.Repeat("x", (row*i)%300) + fmt.Sprint(row, i) }
			key := func(row int) string { return strings.Repeat("k", row) + strconv.Itoa(row) }
			for row := range rows {
				cells := make([]string, columns)
				for i := range cells {
					cells[i] = cell(row, i)
				}
				if !b.Add(row*1000, key(row), cells) {
					t.Fatalf("row %d was not added", row)
				}
				if b.Add(1, key(row), cells) {
					t.Fatalf("row %d was added twice", row)
				}
			}
			table := b.Table()
			if table.Len() != rows {
				t.Errorf("%d rows, want %d", table.Len(), rows)
			}
			check := func(row int, r Row) {
				t.Helper()
				if r.Line() != row*1000 {
					t.Fatalf("row %d is on line %d", row, r.Line())
				}
				for i := range columns {
					if got := r.Cell(i); got != cell(row, i) {
						t.Fatalf("cell %d of row %d is %q, want %q", i, row, got, cell(row, i))
					}
				}
				if r.Cell(-1) != "" || r.Cell(columns) != "" {
					t.Fatal("a cell outside the row")
				}
			}
			next := 0
			for k, r := range table.All() {
				if k != key(next) {
					t.Fatalf("row %d has the key %q, want %q", next, k, key(next))
				}
				check(next, r)
				next++
			}
			for row := range rows {
				r, ok := table.Find(key(row))
				if !ok {
					t.Fatalf("row %d is not found", row)
				}
				check(row, r)
			}
			for _, missing := range []string{"", "k", "1", "k0", "kk1"} {
				if _, ok := table.Find(missing); ok {
					t.Errorf("%q is found", missing)
				}
			}
		})
	}
}

func TestEmptyTable(t *testing.T) {
	for _, table := range []*Table{nil, {}, new(Builder).Table()} {
		if _, ok := table.Find(""); ok || table.Len() != 0 {
			t.Errorf("%+v has a row", table)
		}
	}
	if (Row{}).Cell(0) != "" {
		t.Error("the zero row has a cell")
	}
}

func TestEmptyKeyAndCells(t *testing.T) {
	var b Builder
	if !b.Add(0, "", []string{"", ""}) || b.Add(1, "", []string{"a", "b"}) {
		t.Fatal("the empty key is a key as any other")
	}
	if r, ok := b.Table().Find(""); !ok || r.Cell(0) != "" || r.Cell(1) != "" {
		t.Errorf("got %+v, %v", r, ok)
	}
}
