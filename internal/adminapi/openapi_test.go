package adminapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/koalagate/koalagate/internal/audit"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/heavy"
	"github.com/koalagate/koalagate/internal/operations"
	"github.com/koalagate/koalagate/internal/traffic"
	"github.com/koalagate/koalagate/internal/trial"
	"github.com/koalagate/koalagate/internal/whatif"
)

// loadDescription returns the valid description.
func loadDescription(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(description)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// The description has every path and method of the API, and no other.
func TestDescriptionHasAllPaths(t *testing.T) {
	described := make(map[string]bool)
	for path, item := range loadDescription(t).Paths.Map() {
		for method := range item.Operations() {
			described[method+" "+strings.TrimPrefix(path, "/")] = true
		}
	}
	for _, one := range routes {
		name := one.method + " " + one.path
		if !described[name] {
			t.Errorf("openapi.yaml does not describe %s", name)
		}
		delete(described, name)
	}
	for name := range described {
		t.Errorf("openapi.yaml describes %s, which the API does not have", name)
	}
}

// documents are the types of all documents, by their names in the description.
var documents = map[string]any{
	"Problem": Problem{}, "Question": operations.Question{}, "Request": operations.Request{}, "Why": operations.Why{},
	"WhyRule": operations.WhyRule{}, "WhyImported": operations.WhyImported{}, "WhyBan": operations.WhyBan{}, "WhyToken": explain.Token{}, "ForwardedHeader": explain.Forward{}, "AutomaticBan": operations.AutomaticBan{}, "Entry": operations.Entry{}, "Refusal": operations.Refusal{}, "Reset": Reset{}, "ResetDone": operations.ResetDone{}, "Change": audit.Change{},
	"LogIn": LogIn{}, "Session": Session{}, "State": State{}, "Book": operations.Book{}, "File": operations.File{}, "BookRule": operations.BookRule{}, "BookParam": operations.BookParam{},
	"BookRoute": operations.BookRoute{}, "BookResult": operations.BookResult{}, "BookList": operations.BookList{}, "BookLimit": operations.BookLimit{}, "Finding": findings.Finding{}, "Words": Words{}, "TokenWords": TokenWords{}, "Word": Word{}, "Code": Code{}, "Door": Door{},
	"Draft": operations.Draft{}, "Checked": operations.Checked{}, "Formatted": operations.Formatted{}, "Replay": operations.Replay{}, "Replayed": operations.Replayed{}, "Explanation": operations.Explanation{}, "Report": explain.Report{}, "Header": operations.Header{},
	"Additions": Additions{}, "Addition": Addition{}, "Prepared": Prepared{}, "Exception": exceptions.Exception{},
	"Top": heavy.Row{}, "TopException": heavy.Exception{}, "Second": traffic.Second{}, "RuleRefusals": traffic.RuleRefusals{}, "RulesEvent": RulesEvent{}, "Hour": traffic.Hour{}, "HourRule": traffic.HourRule{},
	"Trial": trial.Report{}, "TrialRule": whatif.Rule{}, "TrialIdentity": whatif.Identity{},
	"Fleet": Fleet{}, "Instance": fleet.Instance{}, "Version": Version{}, "VersionDetail": VersionDetail{}, "VersionFile": VersionFile{}, "VersionList": VersionList{},
	"NewVersion": NewVersion{}, "NewTrial": NewTrial{}, "Proposed": Proposed{}, "Progress": Progress{}, "Enforcement": Enforcement{}, "Difference": Difference{}, "Missing": Missing{}, "Content": fleet.Blob{},
}

// The description has every field of every document with its type, and no other; fields
// that are always written are required.
func TestDescriptionHasAllFields(t *testing.T) {
	schemas := loadDescription(t).Components.Schemas
	for name := range schemas {
		if _, known := documents[name]; !known && name != "Identity" && name != "Modes" && name != "RuleRef" {
			t.Errorf("no type for schema %s", name)
		}
	}
	for name, v := range documents {
		ref := schemas[name]
		if ref == nil {
			t.Errorf("no schema %s", name)
			continue
		}
		described := make(map[string]bool)
		for field := range ref.Value.Properties {
			described[field] = true
		}
		required := make(map[string]bool)
		for _, field := range ref.Value.Required {
			required[field] = true
		}
		for field, kind := range fieldsOf(reflect.TypeOf(v)) {
			property := ref.Value.Properties[field]
			if property == nil {
				t.Errorf("%s: field %s is not described", name, field)
				continue
			}
			if got := typeOf(property.Value); got != kind.name {
				t.Errorf("%s: field %s has type %s; want %s", name, field, got, kind.name)
			}
			if required[field] == kind.optional {
				t.Errorf("%s: field %s is required: %v", name, field, required[field])
			}
			delete(described, field)
		}
		for field := range described {
			t.Errorf("%s: the described field %s does not exist", name, field)
		}
	}
}

type fieldKind struct {
	name     string // of the type in JSON schemas
	optional bool
}

func fieldsOf(t reflect.Type) map[string]fieldKind {
	fields := make(map[string]fieldKind)
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			for name, kind := range fieldsOf(f.Type) {
				if _, own := fields[name]; !own {
					fields[name] = kind
				}
			}
			continue
		}
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		fields[name] = fieldKind{jsonType(inner), strings.Contains(options, "omitempty")}
	}
	return fields
}

// typeOf returns the type of a schema, or the types of its alternatives.
func typeOf(schema *openapi3.Schema) string {
	types := schema.Type.Slice()
	for _, one := range schema.OneOf {
		types = append(types, one.Value.Type.Slice()...)
	}
	return strings.Join(types, " or ")
}

func jsonType(t reflect.Type) string {
	if t == reflect.TypeFor[RuleRef]() {
		return "integer or string"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "array"
	case reflect.Map:
		return "object"
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Float64:
		return "number"
	case reflect.Struct:
		if t.String() == "time.Time" {
			return "string"
		}
		return "object"
	}
	return "integer"
}

// validate compares an answer with the description of its path.
func validate(t *testing.T, doc *openapi3.T, method, path string, status int, kind string, body []byte) {
	t.Helper()
	if strings.HasPrefix(path, "exceptions/") && path != "exceptions/prepare" {
		path = "exceptions/{id}"
	}
	item := doc.Paths.Find("/" + path)
	if item == nil || item.GetOperation(method) == nil {
		t.Fatalf("%s /%s is not described", method, path)
	}
	responses := item.GetOperation(method).Responses
	response := responses.Default()
	if status == http.StatusOK {
		response = responses.Status(status)
	}
	content := response.Value.Content.Get(kind)
	if content == nil {
		t.Fatalf("%s /%s: status %d with %s is not described: %s", method, path, status, kind, body)
	}
	if !strings.Contains(kind, "json") {
		return
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("%s /%s: %v: %s", method, path, err, body)
	}
	if err := content.Schema.Value.VisitJSON(value, openapi3.EnableFormatValidation()); err != nil {
		t.Errorf("%s /%s: %v: %s", method, path, err, body)
	}
}
