package adminapi

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// member is a field of a struct in its JSON document.
type member struct {
	name      string
	index     []int
	omitEmpty bool
}

// known has the members of the types that were asked for, by type.
var known sync.Map

// membersOf returns the members of a struct and of its embedded structs. A member of the struct
// hides members of the same name in structs that it embeds after it.
func membersOf(t reflect.Type) []member {
	if list, ok := known.Load(t); ok {
		return list.([]member) //nolint:forcetypeassert // nothing else is stored
	}
	var list []member
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case f.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			for _, m := range membersOf(embedded) {
				m.index = append(slices.Clone(f.Index), m.index...)
				if !slices.ContainsFunc(list, func(own member) bool { return own.name == m.name }) {
					list = append(list, m)
				}
			}
		case f.IsExported() && name != "-":
			list = append(list, member{name, f.Index, options == "omitempty"})
		}
	}
	known.Store(t, list)
	return list
}
