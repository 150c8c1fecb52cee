// SPDX-License-Identifier: MIT

package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// ---- registration ----

type (
	selves  []selves
	selves2 []others
	others  []selves2
)

// Whatever cannot be served panics at registration, naming what is wrong.
func TestWrongRegistrationPanics(t *testing.T) {
	add := func(name string, tool Tool) func() {
		return func() {
			tool.Name = name
			AddTool(&Server{}, tool, func(context.Context, none) (string, error) { return "", nil })
		}
	}
	in := func(f func(*Server)) func() { return func() { f(&Server{}) } }
	for _, tt := range []struct {
		want string
		f    func()
	}{
		{`mcp: tool "": the name must have 1 to 128 bytes`, add("", Tool{})},
		{`: the name must have 1 to 128 bytes`, add(strings.Repeat("x", 129), Tool{})},
		{`mcp: tool "a b": the name must be made of A-Z, a-z, 0-9, _, - and .`, add("a b", Tool{})},
		{`mcp: tool "é": the name must`, add("é", Tool{})},
		{`mcp: tool "[x]": the name must`, add("[x]", Tool{})},
		{`a schema must be a JSON object`, add("x", Tool{InputSchema: json.RawMessage(`[]`)})},
		{`InputSchema is not valid JSON: unexpected end`, add("x", Tool{InputSchema: json.RawMessage(`{"type":"object"`)})},
		{`a schema must be a JSON object`, add("x", Tool{OutputSchema: json.RawMessage(`true`)})},
		{`"type": "object"`, add("x", Tool{InputSchema: json.RawMessage(`{"type":"string"}`)})},
		{`"type": "object"`, add("x", Tool{InputSchema: json.RawMessage(`{"type":["object"]}`)})},
		{`mcp: tool "x": Out: there is no structured output, which OutputSchema promises`, in(promised(""))},
		{`mcp: tool "x": Out: there is no structured output, which OutputSchema promises`, in(promised(none{}))},
		{`mcp: tool "x": Out: there is no structured output, which OutputSchema promises`, in(promised([]Content{}))},
		{`mcp: tool "x": In must be a struct or a map`, func() { byHand[string](&Server{}, `{"type":"object"}`) }},
		{`mcp: tool "x": In must be a struct or a map`, func() { byHand[[]int](&Server{}, `{"type":"object"}`) }},
		{`mcp: tool "x": Meta: `, add("x", Tool{Meta: map[string]any{"f": func() {}}})},
		{`mcp: tool "x": In must be a struct or a map`, in(toolOf[string])},
		{`mcp: tool "x": In must be a struct or a map`, in(toolOf[[]int])},
		{`mcp: tool "x": In: json.RawMessage has a JSON form of its own`, in(toolOf[json.RawMessage])},
		{`mcp: tool "x": In.F: func() cannot be described`, in(toolOf[struct{ F func() }])},
		{`mcp: tool "x": In.A.B[]: any cannot be described`, in(toolOf[struct{ A struct{ B []any } }])},
		{`In.L: a list of itself cannot be described`, in(toolOf[struct{ L selves }])},
		{`In.L: a list of itself cannot be described`, in(toolOf[struct{ L selves2 }])},
		{`In.M: map[int]string cannot be described`, in(toolOf[struct{ M map[int]string }])},
		{`In.A: [2]int cannot be described`, in(toolOf[struct{ A [2]int }])},
		{`In.C: complex128 cannot be described`, in(toolOf[struct{ C complex128 }])},
		{`In.C: mcp.custom has a JSON form of its own`, in(toolOf[struct{ C custom }])},
		{`In.S: the json option string cannot be described`, in(toolOf[struct {
			S int `json:",string"`
		}])},
		{`In.point: an embedded pointer to an unexported type cannot be set`, in(toolOf[pointer])},
		{`In.A: enum must be on a string or a list of strings, without a form of its own`, in(toolOf[struct {
			A bool `enum:"true"`
		}])},
		{`In.A: enum must be on a string or a list of strings`, in(toolOf[struct {
			A int `enum:"1,2"` // for which one provider refuses every tool
		}])},
		{`In.A: minimum must be a number`, in(toolOf[struct {
			A int `minimum:"one"`
		}])},
		{`In.A: minimum must be a number`, in(toolOf[struct {
			A int `minimum:"\"5\""`
		}])},
		{`In.A: minimum must be a number`, in(toolOf[struct {
			A int `minimum:""`
		}])},
		{`In.A: minLength must be a number of characters`, in(toolOf[struct {
			A string `minLength:""`
		}])},
		{`In.A: format must be`, in(toolOf[struct {
			A string `format:""`
		}])},
		{`In.A: minimum must be an integer, got 0.5`, in(toolOf[struct {
			A int `minimum:"0.5"`
		}])},
		{`In.A: maximum must be at most 127, got 300`, in(toolOf[struct {
			A int8 `maximum:"300"`
		}])},
		{`In.A: minimum is above maximum`, in(toolOf[struct {
			A int `minimum:"5" maximum:"3"`
		}])},
		{`In.A: maximum must be a number`, in(toolOf[struct {
			A string `maximum:"1"`
		}])},
		{`In.A: minLength must be a number of characters`, in(toolOf[struct {
			A int `minLength:"1"`
		}])},
		{`In.A: maxLength must be a number of characters`, in(toolOf[struct {
			A string `maxLength:"-1"`
		}])},
		{`In.A: format must be`, in(toolOf[struct {
			A string `format:"zip"`
		}])},
		{`In.A: default must be an integer`, in(toolOf[struct {
			A int `default:"5.5"`
		}])},
		{`In.A: default must be JSON`, in(toolOf[struct {
			A int `default:"1 2"`
		}])},
		{`In.A: default must be one of a, b`, in(toolOf[struct {
			A string `default:"c" enum:"a,b"`
		}])},
		{`In.A: default must be at most 3`, in(toolOf[struct {
			A int `default:"4" maximum:"3"`
		}])},
		{`mcp: SchemaOf: chan int has no JSON form`, func() { SchemaOf[chan int]() }},
	} {
		wantPanic(t, tt.want, tt.f)
	}
	var diary bytes.Buffer
	s := &Server{ErrorLog: log.New(&diary, "", 0)}
	for _, name := range []string{"a.b", strings.Repeat("x", 65), strings.Repeat("x", 64), "A-z_9"} {
		AddTool(s, Tool{Name: name}, func(context.Context, none) (string, error) { return "", nil })
	}
	if got := diary.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"a.b"`) {
		t.Errorf("log %q", got)
	}
}

// A server whose name, version or icons no client accepts is not served.
func TestAServerThatNoClientAcceptsIsNotServed(t *testing.T) {
	for want, s := range map[string]*Server{
		"Server.Version must be set":           {Name: "x"},
		"Server.Name and":                      {Version: "1"},
		"Server.Icons: the Src of an Icon":     {Name: "x", Version: "1", Icons: []Icon{{Src: "icon.png"}}},
		"Server.Icons: the Theme of an Icon":   {Name: "x", Version: "1", Icons: []Icon{{Src: "data:,x"}, {Src: "data:,x", Theme: "blue"}}},
		"Experimental or Extensions: json: un": {Name: "x", Version: "1", Extensions: map[string]any{"x": func() {}}},
	} {
		if err := s.Serve(context.Background(), strings.NewReader(""), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Annotations, sizes and icons that no client accepts panic at registration.
func TestWrongAnnotationsAndIconsPanic(t *testing.T) {
	resource := func(r Resource) func() {
		r.URI, r.Name = "x:a", "a"
		return func() { (&Server{}).AddResource(r, texts("")) }
	}
	wantPanic(t, "the Priority must be from 0 to 1", resource(Resource{Annotations: &Annotations{Priority: ptr(1.5)}}))
	wantPanic(t, "the Priority must be from 0 to 1", resource(Resource{Annotations: &Annotations{Priority: ptr(-0.1)}}))
	wantPanic(t, "the Audience must be", resource(Resource{Annotations: &Annotations{Audience: []string{"users"}}}))
	wantPanic(t, "LastModified must be a time", resource(Resource{Annotations: &Annotations{LastModified: "2026-01-02 03:04"}}))
	resource(Resource{Annotations: &Annotations{LastModified: "2026-01-02T03:04:00Z"}})()
	wantPanic(t, "Size is negative", resource(Resource{Size: -1}))
	wantPanic(t, "the Src of an Icon", resource(Resource{Icons: []Icon{{Src: "icon.png"}}}))
	wantPanic(t, "the Theme of an Icon", resource(Resource{Icons: []Icon{{Src: "https://x", Theme: "blue"}}}))
	wantPanic(t, "the Src of an Icon", func() {
		(&Server{}).AddPrompt(Prompt{Name: "p", Icons: []Icon{{}}}, func(context.Context, map[string]string) ([]Message, error) { return nil, nil })
	})
	wantPanic(t, "the Src of an Icon", func() {
		AddTool(&Server{}, Tool{Name: "t", Icons: []Icon{{Src: "file:///x"}}}, func(context.Context, none) (string, error) { return "", nil })
	})
}

// A tag whose value cannot hold panics at registration, naming the field.
func TestTagsThatCannotHoldPanic(t *testing.T) {
	in := func(f func(*Server)) func() { return func() { f(&Server{}) } }
	twice := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"a"`}, {Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"a,omitempty"`}})
	for _, tt := range []struct {
		want string
		f    func()
	}{
		{"In.A: enum must be on ", in(toolOf[struct {
			A []int `enum:"1,2"`
		}])},
		{"In.A: enum: ", in(toolOf[struct {
			A string `enum:"a, b"`
		}])},
		{"In.A: minLength is above maxLength", in(toolOf[struct {
			A string `minLength:"3" maxLength:"2"`
		}])},
		{"In.A: enum: duplicate value a", in(toolOf[struct {
			A string `enum:"a,b,a"`
		}])},
		{"In.A: enum must have at most 2 characters", in(toolOf[struct {
			A string `enum:"a,bcd" maxLength:"2"`
		}])},
		{"In.A: format must be", in(toolOf[struct {
			A time.Time `format:"date"`
		}])},
		{"In.A: format must be", in(toolOf[struct {
			A []byte `format:"email"`
		}])},
		{"In.A: default must be an integer", in(toolOf[struct {
			A int `default:"\"5\""`
		}])},
		{"In.A: default[1] must be an integer", in(toolOf[struct {
			A []int `default:"[1,\"2\"]"`
		}])},
		{"In.A: default must be an integer, got null", in(toolOf[struct {
			A *int `default:"null"`
		}])},
		{`In.A: encoding/json leaves the field out, because B has the same JSON name, a`, func() { mustDerive(twice, "In", reading) }},
		{`Out.A: encoding/json leaves the field out`, func() { mustDerive(twice, "Out", writing) }},
		{"Out.A: minLength is above maxLength", func() {
			out(struct {
				A string `minLength:"3" maxLength:"2"`
			}{}, nil)(&Server{})
		}},
		{"SchemaOf.A: enum: duplicate value a", func() {
			SchemaOf[struct {
				A string `enum:"a,a"`
			}]()
		}},
	} {
		if strings.Contains(tt.want, "uint8") {
			tt.want = strings.Replace(tt.want, "In.A", "In.C.A", 1)
		}
		wantPanic(t, tt.want, tt.f)
	}
	// A default with newlines is still one line.
	s := &Server{}
	toolOf[struct {
		A []int "default:\"[1,\\n 2]\" json:\"a\""
	}](s)
	if tool, _ := callX(t, s, legacyPV); !strings.Contains(string(tool.InputSchema), `"default":[1,2]`) {
		t.Errorf("got %s", tool.InputSchema)
	}
}

// A jsonschema tag in another library's dialect panics, lest models read it as
// a description.
func TestAnotherLibrarysTagPanics(t *testing.T) {
	for _, tag := range []string{"required", "the path,required", "description=the path", "title=a,description=b", "enum=a,enum=b", "the path,minLength=3", "required,description=x",
		"type=string", "WORD=x", "the path,default=3", "the path,example=joe,example=lucy"} {
		typ := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`jsonschema:` + strconv.Quote(tag))}})
		wantPanic(t, "w.A: jsonschema:", func() { mustDerive(typ, "w", reading) })
		wantPanic(t, "is the description alone", func() { mustDerive(typ, "w", writing) })
	}
	for _, doc := range []string{"", "is it required?", "what is required, and what not", "an equation, such as a=b", "the path", "a, b, or c", "labels as key=value pairs", "one of a,b,c", "x == y", "Required."} {
		typ := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(`jsonschema:` + strconv.Quote(doc))}})
		if got := string(mustDerive(typ, "w", reading).render()); doc != "" && !strings.Contains(got, `"description":`+quote(doc)) {
			t.Errorf("%s: %s", doc, got)
		}
	}
}

// ---- schemas from types ----

type (
	point struct {
		X int `json:"x"`
		Y int `json:"y,omitempty"`
	}
	tree struct {
		Name string  `json:"name"`
		Kids []tree  `json:"kids,omitempty"`
		Up   *tree   `json:"up"`
		More treeMap `json:"more,omitzero"`
	}
	treeMap map[string]tree
	base    struct {
		ID     string `json:"id"`
		Hidden string `json:"-"`
		Dash   bool   `json:"-,"`
		secret int
	}
	left struct {
		X string `json:"X"` // counts, because the name is in the tag
		Y int
	}
	right   struct{ X int }
	pointer struct{ *point }
	custom  struct{}
)

func (custom) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// schemaCases are types and what they look like to a model.
var schemaCases = []struct {
	name   string
	schema func() json.RawMessage
	want   string
}{

	{"nothing", SchemaOf[none], `{"type":"object","properties":{},"additionalProperties":false}`},
	{"scalars", SchemaOf[struct {
		S string  `json:"s"`
		B bool    `json:"b"`
		I int8    `json:"i"`
		U uint64  `json:"u"`
		F float32 `json:"f"`
	}], `{"type":"object","properties":{"s":{"type":"string"},"b":{"type":"boolean"},"i":{"type":"integer","minimum":-128,"maximum":127},"u":{"type":"integer","minimum":0},"f":{"type":"number"}},"required":["s","b","i","u","f"],"additionalProperties":false}`},
	{"what is optional", SchemaOf[struct {
		A int  `json:"a,omitempty"`
		B int  `json:"b,omitzero"`
		C *int `json:"c"`
		D int  `json:"d" default:"3"`
		E int  `json:"e"`
	}], `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"},"d":{"type":"integer","default":3},"e":{"type":"integer"}},"required":["e"],"additionalProperties":false}`},
	{"tags", SchemaOf[struct {
		S string   `json:"s" jsonschema:"one, or \"two\"" enum:"a,b" default:"a"`
		N int      `json:"n" minimum:"1" maximum:"2"`
		F float64  `json:"f" minimum:"-0.5" maximum:"1e3"`
		L []string `json:"l" enum:"x,y" minLength:"1" maxLength:"2" default:"[\"x\"]"`
		M string   `json:"m" minLength:"0" maxLength:"0" format:"email"`
		D []int    `json:"d,omitempty" jsonschema:"days"`
	}], `{"type":"object","properties":{"s":{"type":"string","description":"one, or \"two\"","default":"a","enum":["a","b"]},"n":{"type":"integer","minimum":1,"maximum":2},` +
		`"f":{"type":"number","minimum":-0.5,"maximum":1e3},"l":{"type":"array","default":["x"],"minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y"]}},` +
		`"m":{"type":"string","maxLength":0,"format":"email"},"d":{"type":"array","description":"days","items":{"type":"integer"}}},"required":["n","f","m"],"additionalProperties":false}`},
	{"text and bytes", SchemaOf[struct {
		T time.Time     `json:"t"`
		B []byte        `json:"b"`
		A netip.Addr    `json:"a"`
		D time.Duration `json:"d"`
	}], `{"type":"object","properties":{"t":{"type":"string","format":"date-time"},"b":{"type":"string","description":"base64","contentEncoding":"base64"},"a":{"type":"string"},"d":{"type":"integer"}},"required":["t","b","a","d"],"additionalProperties":false}`},
	{"lists and maps", SchemaOf[struct {
		P []*point         `json:"p"`
		M map[string][]int `json:"m"`
		Q point            `json:"q"` // a type for the second time is the same
	}], `{"type":"object","properties":{"p":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}},` +
		`"m":{"type":"object","properties":{},"additionalProperties":{"type":"array","items":{"type":"integer"}}},` +
		`"q":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}},"required":["p","m","q"],"additionalProperties":false}`},
	{"embedding", SchemaOf[struct{ base }],
		`{"type":"object","properties":{"id":{"type":"string"},"-":{"type":"boolean"}},"required":["id","-"],"additionalProperties":false}`},
	{"names in conflict", SchemaOf[struct {
		base
		left
		right
		ID int `json:"id"` // the least deep one counts
	}], `{"type":"object","properties":{"-":{"type":"boolean"},"X":{"type":"string"},"Y":{"type":"integer"},"id":{"type":"integer"}},"required":["-","X","Y","id"],"additionalProperties":false}`},
	{"recursion", SchemaOf[tree], `{"type":"object","properties":{"name":{"type":"string"},"kids":{"type":"array","items":{"type":"object","properties":{}}},"up":{"type":"object","properties":{}},` +
		`"more":{"type":"object","properties":{},"additionalProperties":{"type":"object","properties":{}}}},"required":["name"],"additionalProperties":false}`},
	{"a map", SchemaOf[map[string]string], `{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`},
	{"a pointer", SchemaOf[**point], `{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}`},
	{"a list", SchemaOf[[]string], `{"type":"array","items":{"type":"string"}}`},
}

// Each type has the schema of the table, to the byte, and every model provider
// accepts it.
func TestTypesHaveTheSchemasOfTheTable(t *testing.T) {
	for _, tt := range schemaCases {
		got := tt.schema()
		if string(got) != tt.want { // to the byte: the order of fields counts
			t.Errorf("%s: got  %s\nwant %s", tt.name, got, tt.want)
		}
		var v any
		if err := json.Unmarshal(got, &v); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		acceptable(t, tt.name, v)
	}
}

// The range of a small integer type stands in the schema, and is enforced.
func TestSmallIntegersSayTheirRange(t *testing.T) {
	got := string(SchemaOf[struct {
		A int8   `json:"a"`
		B int16  `json:"b"`
		C int32  `json:"c"`
		D int64  `json:"d"`
		E uint8  `json:"e"`
		F uint16 `json:"f"`
		G uint32 `json:"g"`
		H uint64 `json:"h"`
		I int8   `json:"i" minimum:"0"`
		J []int8 `json:"j"`
	}]())
	for _, want := range []string{`"a":{"type":"integer","minimum":-128,"maximum":127}`, `"b":{"type":"integer","minimum":-32768,"maximum":32767}`,
		`"c":{"type":"integer","minimum":-2147483648,"maximum":2147483647}`, `"d":{"type":"integer"}`, `"e":{"type":"integer","minimum":0,"maximum":255}`,
		`"f":{"type":"integer","minimum":0,"maximum":65535}`, `"g":{"type":"integer","minimum":0,"maximum":4294967295}`, `"h":{"type":"integer","minimum":0}`,
		`"i":{"type":"integer","minimum":0,"maximum":127}`, `"j":{"type":"array","items":{"type":"integer","minimum":-128,"maximum":127}}`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// map[string]any is a free-form object wherever it stands, and costs its tool
// no other check.
func TestMapOfAnyIsFreeForm(t *testing.T) {
	type in struct {
		F map[string]any            `json:"f" jsonschema:"anything"`
		L []map[string]any          `json:"l,omitempty"`
		M map[string]map[string]any `json:"m,omitempty"`
	}
	s := &Server{}
	toolOf[in](s)
	tool, _ := callX(t, s, legacyPV)
	want := `{"type":"object","properties":{"f":{"type":"object","description":"anything"},"l":{"type":"array","items":{"type":"object"}},` +
		`"m":{"type":"object","properties":{},"additionalProperties":{"type":"object"}}},"required":["f"],"additionalProperties":false}`
	if string(tool.InputSchema) != want {
		t.Errorf("got  %s\nwant %s", tool.InputSchema, want)
	}
	try(t, s, trial{`{"f":{"a":[1,null,{"b":true}],"c":1.5},"l":[{}],"m":{"x":{"y":null}}}`, `{"f":{"a":[1,null,{"b":true}],"c":1.5},"l":[{}],"m":{"x":{"y":null}}}`},
		trial{`{"f":5}`, "! f must be an object, got 5"}, trial{`{"g":{}}`, "! g is unknown (there is f, l, m); f is required"}, trial{`{"f":[]}`, "! f must be an object, got []"})
	s = &Server{}
	toolOf[map[string]any](s)
	if tool, _ = callX(t, s, legacyPV); string(tool.InputSchema) != `{"type":"object","properties":{}}` {
		t.Errorf("got %s", tool.InputSchema)
	}
	try(t, s, trial{`{"a":null}`, `{"a":null}`}, trial{`{}`, `{}`})
	for want, f := range map[string]func(*Server){
		`In.A: any cannot be described: write a type, or map[string]any`:                      toolOf[struct{ A any }],
		`In.A: json.RawMessage has a JSON form of its own, which cannot be described: write `: toolOf[struct{ A json.RawMessage }],
		`In.A: [2]int cannot be described: write a slice, []int`:                              toolOf[struct{ A [2]int }],
		`In.A: map[int]bool cannot be described: write a map with string keys`:                toolOf[struct{ A map[int]bool }],
		`In.A[]: fmt.Stringer cannot be described`:                                            toolOf[struct{ A map[string]fmt.Stringer }],
	} {
		wantPanic(t, want, func() { f(&Server{}) })
	}
}

// Bytes are base64 in a schema unless their type has a text form, as net.IP
// has.
func TestAListOfBytesWithATextFormIsNoBase64(t *testing.T) { // as net.IP is
	if got := string(SchemaOf[struct{ A, B []byte }]()); strings.Count(got, "base64") != 4 {
		t.Error(got)
	}
	if got := string(SchemaOf[struct{ A blob }]()); strings.Contains(got, "base64") {
		t.Error(got)
	}
}

// A []byte says base64 in its description if it has none.
func TestBytesSayBase64(t *testing.T) {
	got := string(SchemaOf[struct {
		A []byte   `json:"a"`
		B []byte   `json:"b" jsonschema:"the picture"`
		C [][]byte `json:"c"`
	}]())
	for _, want := range []string{`"a":{"type":"string","description":"base64","contentEncoding":"base64"}`, `"b":{"type":"string","description":"the picture","contentEncoding":"base64"}`, `"items":{"type":"string","description":"base64"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

type colour string

func (colour) String() string { return "painted" }

// An enum is of what is sent, and not of how a type prints.
func TestAnEnumIsOfWhatIsSent(t *testing.T) {
	type in struct {
		C colour   `enum:"red,blue"`
		L []colour `enum:"red,blue"`
	}
	for args, want := range map[string]string{
		`{"C":"red","L":["blue"]}`:      said("1", "ok"),
		`{"C":"painted","L":["green"]}`: failed("1", `Invalid arguments: C must be one of red, blue, got "painted"; L[0] must be one of red, blue, got "green"`),
	} {
		s := new(Server)
		AddTool(s, Tool{Name: "x"}, func(_ context.Context, in in) (string, error) { return "ok", nil })
		play(t, s, "2025-11-25", "> "+call("1", "x", args)+"\n< "+want)
	}
}

// The types m1 to m9 each contain all the others.
type (
	m1 struct {
		A *m2
		B *m3
		C *m4
		D *m5
		E *m6
		F *m7
		G *m8
		H *m9
	}
	m2 struct {
		A *m1
		B *m3
		C *m4
		D *m5
		E *m6
		F *m7
		G *m8
		H *m9
	}
	m3 struct {
		A *m2
		B *m1
		C *m4
		D *m5
		E *m6
		F *m7
		G *m8
		H *m9
	}
	m4 struct {
		A *m2
		B *m3
		C *m1
		D *m5
		E *m6
		F *m7
		G *m8
		H *m9
	}
	m5 struct {
		A *m2
		B *m3
		C *m4
		D *m1
		E *m6
		F *m7
		G *m8
		H *m9
	}
	m6 struct {
		A *m2
		B *m3
		C *m4
		D *m5
		E *m1
		F *m7
		G *m8
		H *m9
	}
	m7 struct {
		A *m2
		B *m3
		C *m4
		D *m5
		E *m6
		F *m1
		G *m8
		H *m9
	}
	m8 struct {
		A *m2
		B *m3
		C *m4
		D *m5
		E *m6
		F *m7
		G *m1
		H *m9
	}
	m9 struct {
		A *m2
		B *m3
		C *m4
		D *m5
		E *m6
		F *m7
		G *m8
		H *m1
	}
)

// The schema of types that contain each other has a bounded size.
func TestSchemaIsBounded(t *testing.T) {
	begin := time.Now()
	got := SchemaOf[m1]()
	var v any
	if err := json.Unmarshal(got, &v); err != nil || len(got) > 32<<10 || len(got) < 1<<10 || time.Since(begin) > time.Second {
		t.Errorf("%d bytes in %v, %v", len(got), time.Since(begin), err)
	}
	acceptable(t, "m1", v)
}

type chain struct {
	N    int    `json:"n"`
	Next *chain `json:"next,omitempty"`
}

// A list of thousands of linked nodes is written, and not taken for one that
// contains itself.
func TestLongChainsAreWritten(t *testing.T) {
	var list *chain
	for i := range 2000 {
		list = &chain{i, list}
	}
	s := &Server{}
	out(*list, nil)(s)
	_, results := callX(t, s, legacyPV, "{}")
	if got := results[0].text(); strings.Count(got, `"n"`) != 2000 {
		t.Errorf("got %.200s", got)
	}
}

// The tags of a type that contains itself are checked too.
func TestTagsOfWhatContainsItselfCount(t *testing.T) {
	type node struct {
		Kids []node           `json:"kids,omitempty" jsonschema:"what is below" maxLength:"2"`
		Up   *node            `json:"up,omitempty" jsonschema:"what is above"`
		More map[string]*node `json:"more,omitempty" jsonschema:"others"`
	}
	for _, got := range []string{string(SchemaOf[node]()), string(SchemaOf[[]node]())} {
		for _, want := range []string{"what is below", `"maxItems":2`, "what is above", "others"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
	}
}

type (
	needsItself struct {
		Next *needsItself `json:"next" default:"{}"`
	}
	needsItselfTwice struct {
		L *needsItselfTwice `json:"l" default:"{}"`
		R *needsItselfTwice `json:"r" default:"{}"`
	}
	needsByAnother struct {
		A, B, C *needsBack `default:"{}"`
	}
	needsBack struct {
		D, E, F *needsByAnother `default:"{}"`
	}
	ownKids []ownKid
	ownKid  struct {
		Kids ownKids `json:"kids,omitempty" default:"[{}]"`
	}
	kidsEnum []kidEnum
	kidEnum  struct {
		Kids kidsEnum `enum:"a,b"`
	}
	needsLater struct {
		B *needsEarlier `json:"b,omitempty"`
		X int           `json:"x" default:"5"`
	}
	needsEarlier struct {
		A *needsLater `json:"a" default:"{}"`
	}
	boundLater struct {
		D *tooLow `json:"d"`
		X int     `json:"x" minimum:"3"`
	}
	tooLow struct {
		C *boundLater `json:"c" default:"{\"x\":1}"`
	}
	rows []struct {
		Name string `json:"name"`
		Kids []rows `json:"kids"`
	}
)

// A default is held against its type when all of that is known. One that is never
// whole, because it needs itself, panics.
func TestDefaultsOfWhatContainsItself(t *testing.T) {
	for _, f := range []func(*Server){toolOf[needsItself], toolOf[needsItselfTwice], toolOf[needsByAnother], toolOf[ownKid], func(*Server) { SchemaOf[ownKids]() }} {
		wantPanic(t, "is nested too deeply", func() { f(&Server{}) })
	}
	wantPanic(t, "enum must be on a string", func() { SchemaOf[kidsEnum]() })
	wantPanic(t, "In.D.C: default.x must be at least 3, got 1", func() { toolOf[boundLater](&Server{}) })
	s := &Server{}
	toolOf[needsLater](s)
	try(t, s, trial{`{"b":{}}`, `{"b":{"a":{"x":5}},"x":5}`})
	s = &Server{}
	byHand[needsItselfTwice](s, `{"type":"object"}`) // wrong tags count for nothing there
	try(t, s, trial{`{"l":{"r":{}}}`, `{"l":{"l":null,"r":{"l":null,"r":null}},"r":null}`})
	type tree struct {
		Kids []tree `json:"kids,omitempty" default:"[]"`
	}
	s = &Server{}
	toolOf[tree](s)
	try(t, s, trial{`{"kids":[{}]}`, `{"kids":[{}]}`})
}

// A list of structs may hold such lists again. Only a list of nothing but lists
// cannot be described.
func TestAListMayContainItselfInAStruct(t *testing.T) {
	type in struct {
		T rows `json:"t"`
	}
	s := &Server{}
	out(in{}, nil)(s)
	if tool, _ := callX(t, s, legacyPV, "{}"); tool.OutputSchema == nil {
		t.Error("no output schema was derived")
	}
	toolOf[in](s)
	try(t, s, trial{`{"t":[{"name":"a","kids":[[]]}]}`, `{"t":[{"name":"a","kids":[[]]}]}`})
	for _, schema := range []string{string(SchemaOf[in]()), string(SchemaOf[rows]())} {
		if !strings.Contains(schema, `"kids":{"type":"array","items":{"type":"array","items":{"type":"object"`) {
			t.Errorf("got %s", schema)
		}
	}
}

type embeddedBase struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// The fields of an embedded pointer are optional, as they are left out when it
// is nil.
func TestFieldsOfAnEmbeddedPointerAreOptional(t *testing.T) {
	type Inner struct {
		*embeddedBase     // of an unexported type: fine for a result
		X             int `json:"x"`
	}
	s := &Server{}
	out(Inner{X: 1}, nil)(s)
	tool, results := callX(t, s, legacyPV, "{}")
	if !strings.Contains(string(tool.OutputSchema), `"required":["x"]`) || results[0].text() != `{"x":1}` {
		t.Errorf("got %s, %s", tool.OutputSchema, results[0].text())
	}
	s = &Server{}
	toolOf[struct {
		*Deep
		Z int `json:"z"`
	}](s)
	if tool, _ = callX(t, s, legacyPV); !strings.Contains(string(tool.InputSchema), `"required":["z"]`) {
		t.Errorf("got %s", tool.InputSchema)
	}
	try(t, s, trial{`{"z":1}`, `{"z":1}`}, trial{`{"z":1,"X":2}`, `{"id":0,"Deep":"","X":2,"Y":0,"z":1}`})
}

type (
	onlyReads  int // UnmarshalText alone
	onlyReads2 []string
	byPointer  struct{ N int } // MarshalText of the pointer
)

func (r *onlyReads) UnmarshalText(b []byte) error { *r = onlyReads(len(b)); return nil }

func (r *onlyReads2) UnmarshalText(b []byte) error {
	*r = strings.Split(string(b), "+")
	return nil
}

func (p *byPointer) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "#%d", p.N), nil }

func (p *byPointer) UnmarshalText(b []byte) (err error) {
	p.N, err = strconv.Atoi(strings.TrimPrefix(string(b), "#"))
	return err
}

// A type that has a text form is a string in the schema as in the output.
func TestTextIsAStringInSchemaAndOutput(t *testing.T) {
	type both struct {
		R onlyReads
		L onlyReads2
		P byPointer
		Q *byPointer
		C color
		S []byPointer
	}
	s := &Server{}
	AddTool(s, Tool{Name: "x", OutputSchema: SchemaOf[both]()}, func(context.Context, none) (both, error) {
		return both{R: 3, L: onlyReads2{"a"}, P: byPointer{4}, Q: &byPointer{5}, S: []byPointer{{6}}}, nil
	})
	tool, results := callX(t, s, legacyPV, "{}")
	var schema any
	json.Unmarshal(tool.OutputSchema, &schema)
	if err := misfit(schema, results[0].Output, false); err != "" {
		t.Errorf("%s does not fit %s: %s", results[0].text(), tool.OutputSchema, err)
	}
	if !strings.Contains(results[0].text(), `"P":"#4","Q":"#5"`) {
		t.Errorf("got %s", results[0].text())
	}
	s = &Server{}
	out(struct{ M map[string]byPointer }{map[string]byPointer{"k": {1}}}, nil)(s) // which encoding/json does not write as text
	if tool, _ := callX(t, s, legacyPV); tool.OutputSchema != nil {
		t.Errorf("got %s", tool.OutputSchema)
	}
	s = &Server{}
	toolOf[struct {
		R onlyReads
		P byPointer
	}](s)
	try(t, s, trial{`{"R":"abc","P":"#5"}`, `{"R":3,"P":{"N":5}}`}, trial{`{"R":5,"P":"#5"}`, "! R must be a string, got 5"})
}

// The output schema is derived from Out where that can be described, and none
// is sent elsewhere.
func TestOutputSchemaIsDerived(t *testing.T) {
	type reply struct {
		N int   `json:"n"`
		L []int `json:"l"`
	}
	const derived = `{"type":"object","properties":{"n":{"type":"integer"},"l":{"type":"array","items":{"type":"integer"}}},"required":["n","l"],"additionalProperties":false}`
	given := Tool{Name: "x", OutputSchema: json.RawMessage(`{"type":"object"}`)}
	for _, tt := range []struct {
		name         string
		add          func(*Server)
		schema, text string
	}{
		{"struct", out(reply{N: 1}, nil), derived, `{"n":1,"l":[]}`},
		{"map", out(map[string]int(nil), nil), `{"type":"object","properties":{},"additionalProperties":{"type":"integer"}}`, "{}"},
		{"free map", out(map[string]any(nil), nil), `{"type":"object","properties":{}}`, "{}"},
		{"given", func(s *Server) {
			AddTool(s, given, func(context.Context, none) (reply, error) { return reply{}, nil })
		}, `{"type":"object"}`, `{"n":0,"l":[]}`},
		{"not to be described", out(struct{ A any }{}, nil), "", `{"A":null}`},
		{"list", out([]reply{}, nil), "", "[]"},
		{"pointer", out(&reply{}, nil), "", `{"n":0,"l":[]}`},
		{"nil pointer", out((*reply)(nil), nil), "", "0 blocks"},
		{"nothing", out(none{}, nil), "", "0 blocks"},
		{"text", out("a", nil), "", "a"},
		{"nil where something is promised", promised((*reply)(nil)), `{"type":"object"}`, "!! Internal error"},
		{"no result where something is promised", promised((*Result)(nil)), `{"type":"object"}`, "!! Internal error"},
		{"content alone where something is promised", promised(&Result{Content: []Content{Text("a")}}), `{"type":"object"}`, "!! Internal error"},
		{"nil in a result where something is promised", promised(&Result{StructuredContent: (*reply)(nil)}), `{"type":"object"}`, "!! Internal error"},
		{"nothing at all where something is promised", promised[any](nil), `{"type":"object"}`, "!! Internal error"},
		{"a text where something is promised", promised[any]("a"), `{"type":"object"}`, "!! Internal error"},
		{"an error where something is promised", promised(&Result{Content: []Content{Text("a")}, IsError: true}), `{"type":"object"}`, "! a"},
		{"what was promised", promised[any](reply{}), `{"type":"object"}`, `{"n":0,"l":[]}`},
		{"any result by value", out[any](Result{Content: []Content{Text("a")}}, nil), "", "a"},
	} {
		s := &Server{}
		tt.add(s)
		tool, results := callX(t, s, legacyPV, "{}")
		if string(tool.OutputSchema) != tt.schema || results[0].text() != tt.text {
			t.Errorf("%s: got %s, %s", tt.name, tool.OutputSchema, results[0].text())
		}
	}
	for want, f := range map[string]func(*Server){
		"Out: write *mcp.Result, mcp.Content or []mcp.Content instead of mcp.Result":     out(Result{}, nil),
		"Out: write *mcp.Result, mcp.Content or []mcp.Content instead of []*mcp.Content": out([]*Content{}, nil),
		"Out: write *mcp.Result, mcp.Content or []mcp.Content instead of *mcp.Content":   out(&Content{}, nil),
	} {
		wantPanic(t, want, func() { f(&Server{}) })
	}
}

// A client whose revision knows of no structured output misses none.
func TestAnOldClientIsPromisedNothing(t *testing.T) {
	for version, want := range map[string]string{"2024-11-05": "a", "2025-03-26": "a", "2025-06-18": "!! Internal error"} {
		s := &Server{}
		promised(&Result{Content: []Content{Text("a")}})(s)
		if _, results := callX(t, s, version, "{}"); results[0].text() != want {
			t.Errorf("%s: got %s, want %s", version, results[0].text(), want)
		}
	}
}

// ---- arguments by their schema ----

// Arguments reach the handler as encoding/json reads them, or one line tells
// the model every fault.
func TestArgumentsAreCheckedBeforeTheHandlerRuns(t *testing.T) {
	type text struct {
		Text string `json:"text"`
	}
	type several struct {
		Name  string   `json:"name"`
		Count int      `json:"count"`
		Unit  string   `json:"unit" enum:"mm,inch"`
		Tags  []string `json:"tags,omitempty" enum:"a,b" maxLength:"2"`
		At    *point   `json:"at,omitempty"`
	}
	type level int8 // a name of ours says nothing to a model
	type ratio float32
	type numbers struct {
		I int64   `json:"i,omitempty"`
		U uint64  `json:"u,omitempty"`
		B level   `json:"b,omitempty"`
		C uint8   `json:"c,omitempty"`
		F float64 `json:"f,omitempty"`
		G ratio   `json:"g,omitempty"`
		T bool    `json:"t,omitempty"`
		P *int    `json:"p,omitempty"`
	}
	type pause struct {
		P time.Duration `json:"p" minimum:"5"`
	}
	type one struct {
		L []int `json:"l" maxLength:"1"`
	}
	type keyed struct {
		M map[lang]int `json:"m"`
	}
	type bounds struct {
		N int64   `json:"n,omitempty" minimum:"-2" maximum:"9007199254740992"`
		U uint64  `json:"u,omitempty" minimum:"3" maximum:"9007199254740992"`
		F float64 `json:"f,omitempty" minimum:"0.5" maximum:"1.5"`
		S string  `json:"s,omitempty" minLength:"2" maxLength:"3"`
		L []int   `json:"l,omitempty" minLength:"1" maxLength:"2"`
		E string  `json:"e,omitempty" enum:"x,y"`
		M string  `json:"m,omitempty" format:"email"`
		R string  `json:"r,omitempty" format:"uri"`
		D string  `json:"d,omitempty" format:"date"`
		T string  `json:"t,omitempty" format:"date-time"`
	}
	type defaults struct {
		S string   `json:"s" default:"x"`
		N *int     `json:"n" default:"5"`
		L []string `json:"l" default:"[\"a\",\"b\"]"`
		B bool     `json:"b" default:"true"`
	}
	type forms struct {
		T *time.Time  `json:"t,omitempty"`
		B []byte      `json:"b,omitempty"`
		A *netip.Addr `json:"a,omitempty"`
	}
	type nested struct {
		A []struct {
			B map[string]point `json:"b"`
		} `json:"a"`
	}
	const bad = "Invalid arguments: "
	for _, tt := range []struct {
		add        func(s *Server, name string)
		args, want string
	}{
		// What is missing, unknown, or of a wrong type.
		{toolAs[text], `{"text":"hi"}`, `{"text":"hi"}`},
		{toolAs[text], `{"text":""}`, `{"text":""}`},
		{toolAs[*text], `{"text":"pointer"}`, `{"text":"pointer"}`},
		{toolAs[text], `{}`, bad + "text is required"},
		{toolAs[text], `null`, bad + "text is required"},
		{toolAs[text], `{"text":null}`, bad + "text must be a string, got null"},
		{toolAs[text], `{"text":5}`, bad + "text must be a string, got 5"},
		{toolAs[text], `{"text":true}`, bad + "text must be a string, got true"},
		{toolAs[text], `{"text":["a"]}`, bad + `text must be a string, got ["a"]`},
		{toolAs[text], `{"text":"a","text":"b"}`, bad + "text came twice"},
		{toolAs[text], `{"text":"a","t\u0065xt":"b"}`, bad + "text came twice"},
		{toolAs[defaults], `{"n":null,"n":1}`, bad + "n came twice"}, // others may take the null
		{toolAs[numbers], `{"p":null,"p":null}`, bad + "p came twice"},
		{toolAs[text], `{"text":"a","Text":"b"}`, bad + "Text is unknown (there is text)"},
		{toolAs[text], `{"text":"a","start_rfc3339":"x"}`, bad + "start_rfc3339 is unknown (there is text)"},
		{toolAs[none], `{"x":1}`, bad + "x is unknown: this tool takes no arguments"},
		{toolAs[struct {
			A string `json:"dryrain,omitempty"`
			B string `json:"d-R_y_R-u_n,omitempty"`
		}], `{"DryRun":1}`, bad + "DryRun is unknown (there is dryrain, d-R_y_R-u_n)"},
		{toolAs[several], `{"name":"n","count":1,"units":"mm"}`, bad + "units is unknown (there is name, count, unit, tags, at); unit is required"},
		{toolAs[several], `{"name":"n","count":1,"unit":"mm","TAG":"mm"}`, bad + "TAG is unknown (there is name, count, unit, tags, at)"},
		{toolAs[several], `{"name":1,"count":"x","unit":"cm","at":{"x":{}}}`, bad + `name must be a string, got 1; count must be an integer, got "x"; unit must be one of mm, inch, got "cm"; at.x must be an integer, got {}`},
		{toolAs[several], `{"name":"n","count":1,"unit":"mm","tags":["a","c"]}`, bad + `tags[1] must be one of a, b, got "c"`},
		{toolAs[several], `{"name":"n","count":1,"unit":"mm","tags":"a"}`, `{"name":"n","count":1,"unit":"mm","tags":["a"]}`},
		{toolAs[several], `{"name":"n","count":1,"unit":"mm","tags":null,"at":null}`, `{"name":"n","count":1,"unit":"mm"}`},
		{toolAs[several], `{"unit":"mm","count":1,"name":"n","at":{"x":1}}`, `{"name":"n","count":1,"unit":"mm","at":{"x":1}}`},
		{toolAs[map[string]int], `{"a":1,"b":"2"}`, `{"a":1,"b":2}`},
		{toolAs[map[string]int], `{"a":1,"a":2}`, bad + "a came twice"},
		{toolAs[map[string]int], `{"a":"x"}`, bad + `a must be an integer, got "x"`},
		// Paths.
		{toolAs[nested], `{"a":[{"b":{"k":{"x":1}}}]}`, `{"a":[{"b":{"k":{"x":1}}}]}`},
		{toolAs[nested], `{"a":[{"b":{}},{"b":{"k":{"x":"?"}}}]}`, bad + `a[1].b.k.x must be an integer, got "?"`},
		{toolAs[nested], `{"a":[{"b":{"k":{}}}]}`, bad + "a[0].b.k.x is required"},
		{toolAs[nested], `{"a":[{"b":{"k":{"x":1,"z":1}}}]}`, bad + "a[0].b.k.z is unknown (there is x, y)"},
		{toolAs[nested], `{"a":[7]}`, bad + "a[0] must be an object, got 7"},
		{toolAs[nested], `{"a":"[\n[1,\n{\"b\": \"\u2028\"}\n]]"}`, bad + `a[0] must be an object, got [1,{"b":"\u2028"}]`},
		{toolAs[tree], `{"name":"a","kids":[{"name":"b","kids":[{"name":"c","up":{"name":"d"}}]}]}`, `{"name":"a","kids":[{"name":"b","kids":[{"name":"c","up":{"name":"d","up":null}}],"up":null}],"up":null}`},
		// Numbers are exact, and models may write them as strings.
		{toolAs[numbers], `{"i":9007199254740993,"u":18446744073709551615}`, `{"i":9007199254740993,"u":18446744073709551615}`},
		{toolAs[numbers], `{"i":-9223372036854775808,"b":-128,"c":255}`, `{"i":-9223372036854775808,"b":-128,"c":255}`},
		{toolAs[numbers], `{"i":9007199254740993.0,"u":1e3,"c":-0}`, `{"i":9007199254740993,"u":1000}`},
		{toolAs[numbers], `{"i":1e18,"u":12.5e1}`, `{"i":1000000000000000000,"u":125}`},
		{toolAs[numbers], `{"i":5.0,"p":null,"f":1}`, `{"i":5,"f":1}`},
		{toolAs[numbers], `{"i":"5","f":"-2.5e3","t":"true","p":"0"}`, `{"i":5,"f":-2500,"t":true,"p":0}`},
		{toolAs[numbers], `{"i":5.5}`, bad + "i must be an integer, got 5.5"},
		{toolAs[numbers], `{"i":"5.5","u":"0x10","f":"","b":" 5"}`, bad + `i must be an integer, got 5.5; u must be an integer, got "0x10"; f must be a number, got ""; b must be an integer, got " 5"`},
		{toolAs[numbers], `{"t":1}`, bad + "t must be a boolean, got 1"},
		{toolAs[numbers], `{"t":"True"}`, bad + `t must be a boolean, got "True"`},
		{toolAs[numbers], `{"i":true,"f":[]}`, bad + "i must be an integer, got true; f must be a number, got []"},
		{toolAs[numbers], `{"i":9223372036854775808,"b":128,"c":256,"u":18446744073709551616}`, bad + "i must be at most 9223372036854775807, got 9223372036854775808; b must be at most 127, got 128; c must be at most 255, got 256; u must be at most 18446744073709551615, got 18446744073709551616"},
		{toolAs[numbers], `{"u":-1}`, bad + "u must be at least 0, got -1"},
		{toolAs[numbers], `{"g":1e300}`, bad + "g must be a float32, got 1e300"},
		// What the tags say.
		{toolAs[bounds], `{"n":-2,"u":9007199254740992,"f":1.5,"s":"éé","l":[1,2],"e":"y","m":"a@b","r":"x:y","d":"2025-01-02","t":"2025-01-02T03:04:05.6+01:00"}`,
			`{"n":-2,"u":9007199254740992,"f":1.5,"s":"éé","l":[1,2],"e":"y","m":"a@b","r":"x:y","d":"2025-01-02","t":"2025-01-02T03:04:05.6+01:00"}`},
		{toolAs[bounds], `{"n":-3,"u":2,"f":0.25}`, bad + "n must be at least -2, got -3; u must be at least 3, got 2; f must be at least 0.5, got 0.25"},
		{toolAs[pause], `{"p":1}`, bad + "p must be at least 5, got 1"}, // and not 1ns
		{toolAs[bounds], `{"n":9007199254740993,"u":9007199254740993,"f":2}`, bad + "n must be at most 9007199254740992, got 9007199254740993; u must be at most 9007199254740992, got 9007199254740993; f must be at most 1.5, got 2"},
		{toolAs[bounds], `{"s":"é","l":[],"e":"z"}`, bad + `s must have at least 2 characters, got 1; l must have at least 1 element, got 0; e must be one of x, y, got "z"`},
		{toolAs[bounds], `{"s":"abcd","l":[1,2,3]}`, bad + "s must have at most 3 characters, got 4; l must have at most 2 elements, got 3"},
		{toolAs[keyed], `{"m":{"EN":1}}`, `{"m":{"en":1}}`}, // a key reads itself, too
		{toolAs[keyed], `{"m":{"ENGLISH":1}}`, bad + "m.ENGLISH is not valid: bad"},
		{toolAs[one], `{"l":[1,2]}`, bad + "l must have at most 1 element, got 2"},
		{toolAs[bounds], `{"m":"a","r":"b","d":"1.1.2025","t":"2025-01-02"}`, bad + `m must be of the format email, got "a"; r must be of the format uri, got "b"; d must be of the format date, got "1.1.2025"; t must be of the format date-time, as in 2026-01-31T09:30:00Z, got "2025-01-02"`},
		{toolAs[defaults], `{}`, `{"s":"x","n":5,"l":["a","b"],"b":true}`},
		{toolAs[defaults], `{"s":null,"n":null,"l":null,"b":null}`, `{"s":"x","n":5,"l":["a","b"],"b":true}`},
		{toolAs[defaults], `{"s":"","n":0,"l":[],"b":false}`, `{"s":"","n":0,"l":[],"b":false}`},
		{toolAs[forms], `{"t":"2025-01-02T03:04:05Z","b":"aGk=","a":"::1"}`, `{"t":"2025-01-02T03:04:05Z","b":"aGk=","a":"::1"}`},
		{toolAs[forms], `{"t":"today","b":"?","a":"x"}`, bad + `t must be of the format date-time, as in 2026-01-31T09:30:00Z, got "today"; b must be base64; a is not valid: ParseAddr("x"): unable to parse IP`},
		// It stays short, and one line.
		{toolAs[text], `{"text":[` + strings.Repeat("1,", 100) + `1]}`, bad + "text must be a string, got [" + strings.Repeat("1,", 49) + "1..."},
		{toolAs[map[string]int], `{` + strings.Repeat(`"k":"x",`, 100) + `"k":1}`, ""},
		{toolAs[text], `{"text":"a","b\nc":1}`, bad + `"b\nc" is unknown (there is text)`},
		{toolAs[text], `{"text":"a","":1}`, bad + `"" is unknown (there is text)`},
	} {
		t.Run(tt.args[:min(len(tt.args), 60)], func(t *testing.T) {
			s := &Server{}
			tt.add(s, "x")
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				c.initialize(legacyPV, "{}")
				c.send(call("1", "x", tt.args))
				switch {
				case tt.want == "": // anything short
					if got := c.recv(); len(got) != 1 || len(got[0]) > 1000 || strings.Contains(got[0], `\n`) {
						t.Errorf("got %q", got)
					}
				case strings.HasPrefix(tt.want, bad):
					c.want(failed("1", tt.want))
				default:
					c.want(said("1", tt.want))
				}
				c.end()
			})
		})
	}
}

// Dates are what package time takes for dates: it knows no leap seconds.
func TestFormatsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		format, good, bad string
	}{
		{"date", "2026-11-21 2024-02-29 2000-02-29 0001-01-31 2026-04-30 2026-12-31",
			"2026-11-31 2026-02-29 1900-02-29 2026-00-10 2026-13-01 2026-01-00 2026-01-32 2026-04-31 2026-1-1 2026-01-011 x 26-01-01 2026/01/01 ２026-01-01"},
		{"date-time", "2026-11-21T00:00:00Z 2026-11-21T23:59:59.123456789123+05:30 2026-11-21T12:00:00.5-11:00",
			"2026-11-21 2026-11-21T24:00:00Z 2026-11-21T12:60:00Z 2026-11-21T12:00:60Z 2026-11-21T12:00:00 2026-11-21T12:00:00.Z 2026-11-21t12:00:00Z 2026-11-21T12:00Z 2026-11-21T12:00:00Z0 2026-11-21T12:00:0000Z 2026-02-30T12:00:00Z T 2026-11-21T1:00:00Z 2026-11-21T12:00:00,5Z 2026-11-21T12:00:00"},
	} {
		for _, s := range strings.Fields(tt.good) {
			if !isWellFormed(tt.format, s) {
				t.Errorf("%s is no %s", s, tt.format)
			}
		}
		for _, s := range strings.Fields(tt.bad) {
			if isWellFormed(tt.format, s) {
				t.Errorf("%s is a %s", s, tt.format)
			}
		}
	}
	for day := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2005; day = day.AddDate(0, 0, 1) {
		if s := day.Format(time.DateOnly); !isWellFormed("date", s) {
			t.Errorf("%s is no date", s)
		}
	}
}

// A null is refused as an element of a list or a map of pointers among arguments.
func TestNullIsNoElement(t *testing.T) {
	type in struct {
		L []*int          `json:"l,omitempty"`
		M map[string]*int `json:"m,omitempty"`
	}
	s := &Server{}
	toolOf[in](s)
	try(t, s, trial{`{"l":[1,null]}`, "! l[1] must be an integer, got null"}, trial{`{"m":{"a":null}}`, "! m.a must be an integer, got null"},
		trial{`{"l":null,"m":null}`, "{}"}, trial{`{"l":[1],"m":{"a":2}}`, `{"l":[1],"m":{"a":2}}`})
}

// Zero is an integer however it is written.
func TestZeroIsAnInteger(t *testing.T) {
	s := &Server{}
	toolOf[struct{ N int8 }](s)
	for _, zero := range []string{"0e-1", "0.0e-5", "-0.0e-7", "0.00", "0E+9", "-0", `"0e-1"`, "0e-99999999999999999999"} {
		try(t, s, trial{`{"N":` + zero + `}`, `{"N":0}`})
	}
	try(t, s, trial{`{"N":1e-1}`, "! N must be an integer, got 1e-1"}, trial{`{"N":10e-1}`, `{"N":1}`}, trial{`{"N":-1200.0e-2}`, `{"N":-12}`}, trial{`{"N":1e99999999999999999999}`, "! N must be at most 127, got 1e99999999999999999999"})
}

// A list or an object may come as a JSON string that holds it; a string stays
// what it is.
func TestListsAndObjectsMayComeAsStrings(t *testing.T) {
	s := &Server{}
	toolOf[struct {
		L []int          `json:"l,omitempty"`
		O *point         `json:"o,omitempty"`
		M map[string]int `json:"m,omitempty"`
		F map[string]any `json:"f,omitempty"`
		S string         `json:"s,omitempty"`
		N int            `json:"n,omitempty"`
		T []string       `json:"t,omitempty"`
	}](s)
	try(t, s,
		trial{`{"l":"[1, 2]"}`, `{"l":[1,2]}`}, trial{`{"l":" [] "}`, `{}`}, trial{`{"o":"{\"x\": 1}"}`, `{"o":{"x":1}}`}, trial{`{"m":"{\"a\":1}"}`, `{"m":{"a":1}}`}, trial{`{"f":"{\"a\":[null]}"}`, `{"f":{"a":[null]}}`},
		trial{`{"l":["1"]}`, `{"l":[1]}`}, trial{`{"t":"[\"[1]\"]"}`, `{"t":["[1]"]}`},
		trial{`{"s":"[1]"}`, `{"s":"[1]"}`}, trial{`{"s":"{}"}`, `{"s":"{}"}`}, trial{`{"s":[1]}`, "! s must be a string, got [1]"}, trial{`{"s":5}`, "! s must be a string, got 5"},
		trial{`{"l":"[1"}`, `! l must be an array, got "[1"`}, trial{`{"l":"{}"}`, `! l must be an array, got "{}"`}, trial{`{"o":"[]"}`, `! o must be an object, got "[]"`},
		trial{`{"l":"1"}`, `! l must be an array, got "1"`}, trial{`{"l":"[1] x"}`, `! l must be an array, got "[1] x"`}, trial{`{"o":"{\"z\":1}"}`, "! o.z is unknown (there is x, y); o.x is required"},
		trial{`{"n":"[1]"}`, `! n must be an integer, got "[1]"`}, trial{`{"n":"5"}`, `{"n":5}`})
}

// An argument that a host adds on its own to every tool is ignored.
func TestHostsOwnArgumentIsIgnored(t *testing.T) {
	for _, own := range []string{"true", "false", "null", `"yes"`, "5", `{"a":[]}`} {
		arg := `"wait_for_previous":` + own
		s := &Server{}
		toolOf[struct{ N int }](s)
		try(t, s, trial{`{"N":1,` + arg + `}`, `{"N":1}`}, trial{`{` + arg + `,` + arg + `,"N":1}`, `{"N":1}`}, trial{`{` + arg + `}`, "! N is required"})
		s = &Server{}
		toolOf[none](s)
		try(t, s, trial{`{` + arg + `}`, `{}`})
		s = &Server{}
		toolOf[map[string]int](s)
		try(t, s, trial{`{` + arg + `,"a":1}`, `{"a":1}`})
		s = &Server{}
		byHand[json.RawMessage](s, `{"type":"object","additionalProperties":false,"properties":{"a":{}}}`)
		try(t, s, trial{`{"a":[1],` + arg + `}`, `{"a":[1]}`})
		s = &Server{}
		byHand[json.RawMessage](s, `{"type":"object","properties":{"wait_for_previous":{}}}`)
		try(t, s, trial{`{` + arg + `}`, `{` + arg + `}`})
		s = &Server{}
		byHand[json.RawMessage](s, `{"type":"object"}`)
		try(t, s, trial{`{` + arg + `}`, `{}`}, trial{`{"d":{` + arg + `}}`, `{"d":{` + arg + `}}`})
		s = &Server{}
		byHand[struct{ N int }](s, `{"type":"object","additionalProperties":false,"properties":{"N":{}}}`)
		try(t, s, trial{`{"N":1,` + arg + `}`, `{"N":1}`})
	}
	s := &Server{}
	toolOf[struct {
		W bool            `json:"wait_for_previous"`
		D struct{ N int } `json:"d,omitzero"`
	}](s)
	try(t, s, trial{`{"wait_for_previous":true}`, `{"wait_for_previous":true}`}, trial{`{"wait_for_previous":5}`, "! wait_for_previous must be a boolean, got 5"},
		trial{`{"wait_for_previous":true,"d":{"N":1,"wait_for_previous":true}}`, "! d.wait_for_previous is unknown (there is N)"})
}

// The valid names that an unknown argument is told stand in their order.
func TestManyNamesAreToldInOrder(t *testing.T) {
	s := &Server{}
	toolOf[struct {
		Zeta  int `json:"zeta"`
		Alpha int `json:"alpha"`
		Nm    int `json:"nm,omitempty"`
	}](s)
	try(t, s, trial{`{"nmae":1,"zeta":1,"alpha":1}`, "! nmae is unknown (there is zeta, alpha, nm)"})
}

// A text of the client that is quoted in an error is cut between characters.
func TestNoTextIsCutInsideOfACharacter(t *testing.T) {
	type in struct {
		N int
		S string `enum:"a"`
		D string `format:"date"`
	}
	for shift := range 4 {
		long := strings.Repeat("x", shift) + strings.Repeat("é€😀", 60)
		s := &Server{}
		toolOf[in](s)
		_, results := callX(t, s, legacyPV, `{"N":"`+long+`"}`, `{"N":["`+long+`"]}`, `{"N":1,"S":"`+long+`"}`, `{"N":1,"S":"a","D":"`+long+`"}`, `{"`+long+`":1}`)
		for _, r := range results {
			if got := r.text(); !r.IsError || strings.ContainsRune(got, utf8.RuneError) || strings.Contains(got, `\x`) || len(got) > 400 {
				t.Errorf("%q", got)
			}
		}
		if got := excerpt(long); !utf8.ValidString(got) || len(got) > 103 {
			t.Errorf("%q", got)
		}
	}
}

// A schema written by hand goes out as it stands, and the handler sees the
// arguments as they came.
func TestASchemaByHandGoesOutAsItStands(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "raw", InputSchema: json.RawMessage("{\n  \"type\": \"object\",\n  \"oneOf\": [ { \"required\": [\"a b\"] } ]\n}\n")},
		func(_ context.Context, args json.RawMessage) (string, error) { return string(args), nil })
	AddTool(s, Tool{Name: "any", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, args map[string]any) (string, error) { return fmt.Sprint(args), nil })
	AddTool(s, Tool{Name: "loose", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, in point) (string, error) { return fmt.Sprint(in), nil })
	play(t, s, legacyPV, `
		> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
		< {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"raw","inputSchema":{"type":"object","oneOf":[{"required":["a b"]}]}},{"name":"any","inputSchema":{"type":"object"}},{"name":"loose","inputSchema":{"type":"object"}}]}}
		> `+call("2", "raw", `{"n":1.0, "n":null,"N":"\u0041"}`)+`
		< `+said("2", `{"n":1.0, "n":null,"N":"\u0041"}`)+`
		> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"raw"}}
		< `+said("3", "{}")+`
		> `+call("4", "raw", "[]")+`
		< `+wrong("4", -32602, "Invalid params: arguments must be an object")+`
		> `+call("5", "any", `{"a":[1.5,{"b":null}],"c":"\n","d":true}`)+`
		< `+said("5", "map[a:[1.5 map[b:<nil>]] c:\n d:true]")+`
		> `+call("6", "loose", `{"y":2,"z":3}`)+`
		< `+said("6", "{0 2}"))
}

// With a schema written by hand, an In that cannot be described is decoded by
// encoding/json.
func TestSchemaByHandTakesAnything(t *testing.T) {
	type odd struct {
		A [2]float64      `json:"a"`
		M map[int]string  `json:"m"`
		R json.RawMessage `json:"r,omitempty"`
		V any             `json:"v,omitempty"`
		N json.Number     `json:"n,omitempty"`
		Q int             `json:"q,string"`
	}
	s := &Server{}
	byHand[odd](s, `{"type":"object"}`)
	try(t, s, trial{`{"a":[1,2.5],"m":{"3":"x"},"r":{"k":[ 1 ]},"v":[null],"n":1.50,"q":"7"}`, `{"a":[1,2.5],"m":{"3":"x"},"r":{"k":[1]},"v":[null],"n":1.50,"q":"7"}`},
		trial{`{}`, `{"a":[0,0],"m":null,"q":"0"}`})
	_, results := callX(t, s, legacyPV, `{"a":"x"}`, `{"m":{"y":"z"}}`, `{"q":"x"}`)
	for _, r := range results {
		if !r.IsError || !strings.HasPrefix(r.text(), invalidArgs) {
			t.Errorf("got %s", r.text())
		}
	}
}

// With a schema written by hand, an argument for which reflect cannot make room is told.
func TestAnEmbeddedPointerThatCannotBeSetIsRefused(t *testing.T) {
	s := &Server{}
	byHand[pointer](s, `{"type":"object"}`)
	try(t, s, trial{`{}`, `{}`}, trial{`{"x":1}`, "! x cannot be set"})
}

// A null in a string is a null for encoding/json, and nothing that bounds are for.
func TestANullInAStringHasNoBounds(t *testing.T) {
	type in struct {
		N *int    `json:"n,string" minimum:"1"`
		L *[]int  `json:"l,string" maxLength:"1"`
		S *string `json:"s,string" enum:"a" minLength:"1"`
	}
	s := &Server{}
	byHand[in](s, `{"type":"object"}`)
	try(t, s, trial{`{"n":"null","l":"null"}`, `{"n":null,"l":null,"s":null}`}, trial{`{"n":"0"}`, "! n must be at least 1, got 0"})
}

// A greedy is a string that writes behind what it is given.
type greedy string

// A plainGreedy is one that stands for a key.
type plainGreedy string

func (g *greedy) UnmarshalJSON(raw []byte) error {
	_ = append(raw, strings.Repeat("#", 300)...)
	return json.Unmarshal(raw, (*string)(g))
}

func (g *plainGreedy) UnmarshalText(text []byte) error {
	*g = plainGreedy(text)
	_ = append(text, strings.Repeat("#", 300)...)
	return nil
}

// What a user's method does to the bytes that it is given harms no other message.
func TestUsersMethodsDoNotReachOtherMessages(t *testing.T) {
	type in struct {
		G greedy              `json:"g"`
		O struct{ G greedy }  `json:"o"`
		M map[plainGreedy]int `json:"m"`
	}
	s := &Server{}
	byHand[in](s, `{"type":"object"}`)
	const args = `{"g":"a","o":{"G":"b"},"m":{"c":1}}`
	try(t, s, trial{args, args}, trial{args, args}, trial{args, args})
}

// Of a schema written by hand, required and additionalProperties of the root
// are enforced.
func TestSchemaByHandIsHeldAtItsRoot(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n"],"additionalProperties":false}`
	type in struct {
		N int8     `json:"n" maximum:"9"`
		S string   `json:"s" enum:"a,b"`
		L []string `json:"l,omitzero"`
	}
	trials := []trial{{`{}`, "! n is required"}, {`{"n":1,"t":2}`, "! t is unknown (there is n, s)"}, {`{"t":1}`, "! t is unknown (there is n, s); n is required"},
		{`{"n":1,"wait_for_previous":true}`, ""}, {`{"n":1}`, ""}}
	adds := []func(*Server, string){byHand[in], byHand[json.RawMessage], byHand[map[string]any], byHand[any]}
	for _, add := range adds {
		s := &Server{}
		add(s, schema)
		for _, tr := range trials {
			_, results := callX(t, s, legacyPV, tr.args)
			if got, want := results[0].text(), strings.Replace(tr.want, "! ", invalidArgs, 1); got != want && (want != "" || results[0].IsError) {
				t.Errorf("%s: got %s, want %s", tr.args, got, want)
			}
		}
	}
	s := &Server{}
	byHand[in](s, schema)
	try(t, s, trial{`{"n":300,"s":"c"}`, `! n must be at most 9, got 300; s must be one of a, b, got "c"`}, trial{`{"n":10}`, "! n must be at most 9, got 10"}, trial{`{"n":1,"s":2}`, "! s must be a string, got 2"})
	s = &Server{}
	byHand[in](s, `{"type":"object","required":["l"],"additionalProperties":false,"patternProperties":{"^x":{}},"properties":{"l":{},"n":{},"s":{}}}`)
	try(t, s, trial{`{"l":[],"x1":1}`, `{"n":0,"s":"","l":[]}`}, trial{`{"l":null}`, `{"n":0,"s":""}`})
	s = &Server{}
	byHand[in](s, `{"type":"object","required":["n","n"]}`) // twice is once
	try(t, s, trial{`{"n":1}`, `{"n":1,"s":""}`})
	wantPanic(t, "required must be a list of names", func() { byHand[none](&Server{}, `{"type":"object","required":"n"}`) })
}

// What models and hosts may get wrong in arguments, clients may not in the
// protocol.
func TestProtocolMessagesAreReadExactly(t *testing.T) {
	type message struct {
		M map[string]string `json:"m"`
		L []string          `json:"l"`
		N *int              `json:"n"`
		B bool              `json:"b"`
	}
	for raw, good := range map[string]bool{`{"m":{"a":"b"},"l":["x"],"n":null,"b":true,"z":1}`: true, `{"M":5}`: true, `{"m":"{}"}`: false, `{"l":"[]"}`: false, `{"n":"5"}`: false, `{"b":"true"}`: false} {
		var m message
		if err := decode([]byte(raw), &m); (err == nil) != good {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// ---- results ----

// Each type that a handler may return becomes the content that its comment
// promises.
func TestEachResultHasItsShape(t *testing.T) {
	type reply struct {
		List []int          `json:"list"`
		Map  map[string]int `json:"map"`
		Ptr  *int           `json:"ptr"`
		Str  string         `json:"str"`
		Skip string         `json:"skip,omitempty"`
	}
	const empty = `{"list":[],"map":{},"str":"<&>"}`
	texts := func(texts ...string) string {
		for i := range texts {
			texts[i] = `{"type":"text","text":` + quote(texts[i]) + `}`
		}
		return `"content":[` + strings.Join(texts, ",") + `]`
	}
	isError := func(text string) string { return texts(text) + `,"isError":true` }
	r := reply{Str: "<&>"}
	var nilReply *reply
	var nilResult *Result
	for _, tt := range []struct {
		name   string
		add    func(*Server)
		result string // in 2025-11-25; or an error
		modern string // structuredContent, if it is another
	}{
		{"string", out("hi", nil), texts("hi"), ""},
		{"empty string", out("", nil), texts(""), ""},
		{"content", out(Text("hi"), nil), texts("hi"), ""},
		{"contents", out([]Content{Text("a"), {Text: "no type is text"}}, nil), texts("a", "no type is text"), ""},
		{"nil contents", out([]Content(nil), nil), texts(), ""},
		{"nothing", out(none{}, nil), texts(), ""},
		{"result", out(&Result{Content: []Content{Text("a")}, StructuredContent: 1, IsError: true}, nil), texts("a") + `,"structuredContent":{"result":1},"isError":true`, "1"},
		{"nil result", out(nilResult, nil), texts(), ""},
		{"struct", out(r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"pointer", out(&r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"nil pointer", out(nilReply, nil), texts(), ""},
		{"slice", out([]string{"a"}, nil), texts(`["a"]`) + `,"structuredContent":{"result":["a"]}`, `["a"]`},
		{"nil slice", out([]string(nil), nil), texts(`[]`) + `,"structuredContent":{"result":[]}`, `[]`},
		{"map", out(map[string]any{"b": nil, "a": []int(nil)}, nil), texts(`{"a":null,"b":null}`) + `,"structuredContent":{"a":null,"b":null}`, ""},
		{"nil map", out(map[string]int(nil), nil), texts(`{}`) + `,"structuredContent":{}`, ""},
		{"number", out(1.5, nil), texts(`1.5`) + `,"structuredContent":{"result":1.5}`, "1.5"},
		{"raw", out(json.RawMessage("{\n\"a\" : 1}"), nil), texts(`{"a":1}`) + `,"structuredContent":{"a":1}`, ""},
		{"any: nil", out[any](nil, nil), texts(), ""},
		{"any: string", out[any]("hi", nil), texts("hi"), ""},
		{"any: struct", out[any](r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"any: pointer", out[any](&r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"any: map", out[any](map[string]any{"a": 1}, nil), texts(`{"a":1}`) + `,"structuredContent":{"a":1}`, ""},
		{"any: slice", out[any]([]int{1}, nil), texts(`[1]`) + `,"structuredContent":{"result":[1]}`, "[1]"},
		{"error", out("not told", errors.New("disk full\n<now>")), isError("disk full\n<now>"), ""},
		{"empty error", out("", errors.New("")), isError(""), ""},
		{"protocol error", out("", error(&Error{Code: 7, Message: "no", Data: map[string]int{"a": 1}})), `{"code":7,"message":"no","data":{"a":1}}`, ""},
		{"wrapped protocol error", out("", fmt.Errorf("so: %w", &Error{Code: -32602, Message: "no"})), `{"code":-32602,"message":"no"}`, ""},
		{"protocol error without a code", out("", error(&Error{Message: "no"})), `{"code":-32603,"message":"no"}`, ""},
		{"joined errors", out("", errors.Join(errors.New("a"), errors.New("b"))), isError("a\nb"), ""},
		{"not JSON", out(math.NaN(), nil), `{"code":-32603,"message":"Internal error"}`, ""},
		{"content that lacks its data", out(Content{Type: "resource"}, nil), `{"code":-32603,"message":"Internal error"}`, ""},
		{"content of no known type", out(Content{Type: "video"}, nil), `{"code":-32603,"message":"Internal error"}`, ""},
		{"panic", func(s *Server) {
			AddTool(s, Tool{Name: "x"}, func(context.Context, none) (string, error) { panic("secret") })
		}, isError("Internal error"), ""},
		{"Goexit", func(s *Server) {
			AddTool(s, Tool{Name: "x"}, func(context.Context, none) (string, error) { runtime.Goexit(); return "", nil })
		}, isError("Internal error"), ""},
		{"deadline of its own", func(s *Server) {
			AddTool(s, Tool{Name: "x"}, func(ctx context.Context, _ none) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, 0)
				defer cancel()
				<-ctx.Done()
				return "", ctx.Err()
			})
		}, isError("context deadline exceeded"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var diary bytes.Buffer
			s := &Server{ErrorLog: log.New(&diary, "", 0)}
			tt.add(s)
			answer, modern := `"result":{`+tt.result+`}`, `"result":{"resultType":"complete",`+tt.result+`,$SRV}`
			if tt.modern != "" {
				modern = regexp.MustCompile(`\{"result":([^{}]*)\}`).ReplaceAllString(modern, strings.ReplaceAll(tt.modern, "$", "$$"))
			}
			if tt.result[0] == '{' {
				answer = `"error":` + tt.result
				modern = answer
			}
			play(t, s, legacyPV, `
				> `+call("1", "x", "{}")+`
				< {"jsonrpc":"2.0","id":1,`+answer+`}
				> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x",$META}}
				< {"jsonrpc":"2.0","id":2,`+modern+`}`+ping)
			if stack := strings.Contains(diary.String(), "goroutine "); stack != (tt.name == "panic" || tt.name == "Goexit") {
				t.Errorf("log %q", diary.String())
			}
		})
	}
}

type (
	writesNull struct{ N int } // JSON, by a method of the value
	pairOf     struct{ A, B int }
)

func (w writesNull) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// A nil pointer in a list or a map keeps its place. Such a type has no schema, unless the
// elements are structs: then a nil one is an error of the call.
func TestNilKeepsItsPlaceInAList(t *testing.T) {
	one, email := "1", "a@x"
	type row struct {
		Cells []*string          `json:"cells"`
		Times map[string]*int    `json:"times"`
		Lists []*[]int           `json:"lists"`
		Own   map[int]*time.Time `json:"own"`
	}
	for _, test := range []struct {
		add       func(*Server)
		described bool
		want      string // "" for an error
	}{
		{out([]*string{&one, nil, &email}, nil), false, `["1",null,"a@x"]`},
		{out(row{[]*string{&one, nil, &email}, map[string]*int{"a": nil, "b": ptr(2)}, []*[]int{nil, {}, ptr([]int(nil))}, map[int]*time.Time{1: nil}}, nil),
			false, `{"cells":["1",null,"a@x"],"times":{"a":null,"b":2},"lists":[null,[],[]],"own":{"1":null}}`},
		{out([]*pairOf{{1, 2}}, nil), false, `[{"A":1,"B":2}]`},
		{out([]*pairOf{{1, 2}, nil}, nil), false, ""},
		{out(struct{ P []*pairOf }{}, nil), true, `{"P":[]}`},
		{out(struct{ M map[string]*pairOf }{map[string]*pairOf{"a": nil}}, nil), true, ""},
	} {
		s := &Server{Name: "demo", Version: "1"}
		said := diagnostics(s)
		test.add(s)
		tool, results := callX(t, s, legacyPV, "{}")
		if (tool.OutputSchema != nil) != test.described {
			t.Errorf("%s: the output schema is %s", test.want, tool.OutputSchema)
		}
		if got := results[0].text(); got != cmp.Or(test.want, "!! Internal error") {
			t.Errorf("got %s, want %s", got, test.want)
		}
		if failed := strings.Contains(said.String(), "has a nil element"); failed != (test.want == "") {
			t.Errorf("%s: reported %q", test.want, said)
		}
	}
	mustPanic(t, map[string]func(){
		"SchemaOf[].L: []*string cannot be described, because an element may be nil: write elements of type string": func() { SchemaOf[[]struct{ L []*string }]() },
		"SchemaOf: map[string]*[]int cannot be described, because an element may be nil":                            func() { SchemaOf[map[string]*[]int]() },
	})
	SchemaOf[struct {
		L []*pairOf
		M map[string]*map[string]any
	}]()
}

// A pointer that is set is sent, also if what it points to writes null. Only a nil pointer
// in a struct is left out.
func TestASetPointerThatWritesNullIsSent(t *testing.T) {
	type inner struct {
		Null, Nil *writesNull
		List      *[]int
		Twice     **int
		Any       *any
	}
	set := inner{Null: &writesNull{}, List: new([]int), Twice: new(*int), Any: new(any)}
	const want = `{"Null":null,"List":[],"Any":null}`
	type embedding struct {
		*inner
		Own *json.RawMessage
	}
	for _, test := range []struct {
		v    any
		want string
	}{
		{set, want},
		{[]inner{{}, set}, `[{},` + want + `]`},
		{map[string]inner{"a": {}, "b\n": set}, `{"a":{},"b\n":` + want + `}`},
		{map[int]inner{-5: set, 1: {}}, `{"-5":` + want + `,"1":{}}`},
		{map[lang]*inner{"x": &set}, `{"x":` + want + `}`},
		{map[time.Month][]inner{1: {{}, set}}, `{"1":[{},` + want + `]}`},
		{map[string]inner{"\xff": {}}, "{\"\ufffd\":{}}"},
		{embedding{&set, ptr(json.RawMessage("null"))}, strings.TrimSuffix(want, "}") + `,"Own":null}`},
		{embedding{}, `{}`},
		{&set, want},
	} {
		got, err := marshal(test.v)
		if sent := strings.ReplaceAll(string(got), `\ufffd`, "\ufffd"); err != nil || sent != test.want {
			t.Errorf("%T: got %s %v, want %s", test.v, got, err, test.want)
		}
	}
}

// The five constructors of content, as they are sent.
func TestEachConstructorMakesItsContent(t *testing.T) {
	for _, tt := range []struct {
		c    Content
		want string
	}{
		{Text(""), `{"type":"text","text":""}`},
		{Image(nil, "image/png"), `{"type":"image","data":"","mimeType":"image/png"}`},
		{Audio([]byte{255, 254}, "audio/wav"), `{"type":"audio","data":"//4=","mimeType":"audio/wav"}`},
		{ResourceLink(Resource{URI: "file:///a", Name: "a"}), `{"type":"resource_link","uri":"file:///a","name":"a"}`},
		{EmbeddedResource(ResourceContents{URI: "file:///a"}), `{"type":"resource","resource":{"uri":"file:///a","text":""}}`},
		{EmbeddedResource(ResourceContents{URI: "file:///a", MIMEType: "x/y", Blob: []byte("b"), Text: "not this"}), `{"type":"resource","resource":{"uri":"file:///a","mimeType":"x/y","blob":"Yg=="}}`},
		{Content{Type: "image", Data: []byte("b"), MIMEType: "x/y", Annotations: &Annotations{Audience: []string{"user"}}, Meta: map[string]any{"a": nil}},
			`{"type":"image","data":"Yg==","mimeType":"x/y","annotations":{"audience":["user"]},"_meta":{"a":null}}`},
	} {
		s := &Server{}
		out(tt.c, nil)(s)
		play(t, s, legacyPV, "> "+call("1", "x", "{}")+"\n"+`< {"jsonrpc":"2.0","id":1,"result":{"content":[`+tt.want+`]}}`)
	}
}

// A result that cannot be sent is reported, with the request and the reason, and the
// client is sent an internal error.
func TestAResultThatCannotBeSentIsReported(t *testing.T) {
	link := func(r Resource) Content { return ResourceLink(r) }
	for want, c := range map[string]Content{
		"Audience must be":             {Text: "a", Annotations: &Annotations{Audience: []string{"user", "everybody"}}},
		"Priority must be":             {Type: "image", Annotations: &Annotations{Priority: ptr(1.5)}},
		"from 0 to 1":                  {Annotations: &Annotations{Priority: ptr(math.NaN())}},
		"LastModified must be":         {Annotations: &Annotations{LastModified: "yesterday"}},
		"Theme of an Icon":             link(Resource{URI: "x:a", Name: "a", Icons: []Icon{{Src: "https://a", Theme: "blue"}}}),
		"Src of an Icon":               link(Resource{URI: "x:a", Name: "a", Icons: []Icon{{Src: "a.png"}}}),
		"be \"user\" or \"assistant\"": link(Resource{URI: "x:a", Name: "a", Annotations: &Annotations{Audience: []string{"model"}}}),
		`content of type "video"`:      {Type: "video"},
		"unsupported value: NaN":       {Text: "a", Meta: map[string]any{"a": math.NaN()}},
	} {
		s := &Server{}
		said := diagnostics(s)
		AddTool(s, Tool{Name: "x"}, func(context.Context, none) (Content, error) { return c, nil })
		s.AddPrompt(Prompt{Name: "x"}, func(context.Context, map[string]string) ([]Message, error) { return []Message{{Content: c}}, nil })
		for _, line := range []string{call("1", "x", "{}"), `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}`} {
			said.Reset()
			play(t, s, "2024-11-05", "> "+line+"\n< "+wrong("1", codeInternal, "Internal error"))
			if got := said.String(); !strings.Contains(got, " x (id 1): the result cannot be sent: ") || !strings.Contains(got, want) {
				t.Errorf("reported %q, want %q", got, want)
			}
		}
	}
	s := &Server{}
	said := diagnostics(s)
	s.AddResource(Resource{URI: "x:a", Name: "a"}, func(context.Context, string, map[string]string) ([]ResourceContents, error) {
		return []ResourceContents{{Meta: map[string]any{"a": func() {}}}}, nil
	})
	s.AddMethod("x/list", func(context.Context, json.RawMessage) (any, error) { return []int{1}, nil })
	play(t, s, legacyPV, `
		> {"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:a"}}
		< `+wrong("1", codeInternal, "Internal error")+`
		> {"jsonrpc":"2.0","id":2,"method":"x/list"}
		< `+wrong("2", codeInternal, "Internal error"))
	for _, want := range []string{"resources/read x:a (id 1): the result cannot be sent: json: unsupported type: func()", "x/list (id 2): the result cannot be sent: the result of a method must be a JSON object"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("reported %q, want %q", said, want)
		}
	}
}

// The Data of an error that has no JSON form is left out and reported.
func TestDataThatCannotBeSentIsReported(t *testing.T) {
	s := &Server{}
	said := diagnostics(s)
	fault := &Error{Code: 5, Message: "m", Data: func() {}}
	out("", error(fault))(s)
	transcript := "> " + call("1", "x", "{}") + "\n< "
	play(t, s, legacyPV, transcript+wrong("1", 5, "m"))
	if !strings.Contains(said.String(), "tools/call x (id 1): the Data of the error cannot be sent: json: unsupported type: func()") {
		t.Errorf("reported %q", said)
	}
	said.Reset()
	fault.Data = ptrJSON{A: 1} // with a method of the pointer
	play(t, s, legacyPV, transcript+`{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"m","data":{"p":1}}}`)
	if said.Len() > 0 {
		t.Errorf("reported %q", said)
	}
}

// A value that an interface holds is written by the methods of its pointer too.
func TestMethodsOfThePointerCount(t *testing.T) {
	s := &Server{}
	out(&Result{StructuredContent: ptrJSON{A: 1}}, nil)(s)
	s.AddMethod("x/get", func(context.Context, json.RawMessage) (any, error) { return ptrJSON{A: 2}, nil })
	play(t, s, legacyPV, `
		> `+call("1", "x", "{}")+`
		< {"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"p":1}}}
		> {"jsonrpc":"2.0","id":2,"method":"x/get"}
		< {"jsonrpc":"2.0","id":2,"result":{"p":2}}`)
}

// Content and the contents of resources inside of a result of another type are written as
// the newest revision has them.
func TestContentInsideOfAResult(t *testing.T) {
	type reply struct {
		Blocks   []Content        `json:"blocks"`
		One      *Content         `json:"one,omitempty"`
		Contents ResourceContents `json:"contents"`
		Message  Message          `json:"message"`
	}
	s := &Server{}
	out(reply{
		Blocks:   []Content{Text("a"), Audio([]byte("b"), "audio/wav"), ResourceLink(Resource{URI: "x:a", Name: "a", Title: "A", Icons: []Icon{{Src: "https://a"}}})},
		Contents: ResourceContents{URI: "x:b", Blob: []byte("b"), Meta: map[string]any{"a": 1}},
		Message:  Message{Role: "user", Content: Text("hi")},
	}, nil)(s)
	const want = `{"blocks":[{"type":"text","text":"a"},{"type":"audio","data":"Yg==","mimeType":"audio/wav"},` +
		`{"type":"resource_link","uri":"x:a","name":"a","title":"A","icons":[{"src":"https://a"}]}],` +
		`"contents":{"uri":"x:b","blob":"Yg==","_meta":{"a":1}},"message":{"role":"user","content":{"type":"text","text":"hi"}}}`
	if tool, results := callX(t, s, legacyPV, "{}"); tool.OutputSchema != nil || results[0].text() != want {
		t.Errorf("got %s with the schema %s\nwant %s", results[0].text(), tool.OutputSchema, want)
	}
	s = &Server{}
	out(reply{One: &Content{Type: "video"}}, nil)(s)
	if _, results := callX(t, s, legacyPV, "{}"); results[0].failed == "" {
		t.Errorf("got %s", results[0].text())
	}
}

// The public types are written by encoding/json as the newest revision has them.
func TestPublicTypesShowTheProtocol(t *testing.T) {
	icons, meta := []Icon{{Src: "https://a", MIMEType: "image/png", Sizes: []string{"any"}, Theme: "dark"}}, map[string]any{"a": 1}
	notes := &Annotations{Audience: []string{"user"}, Priority: ptr(0.0), LastModified: "2026-01-31T09:30:00Z"}
	const shown = `"icons":[{"src":"https://a","mimeType":"image/png","sizes":["any"],"theme":"dark"}],"_meta":{"a":1}}`
	for _, test := range []struct {
		v    any
		want string
	}{
		{Tool{Name: "a", InputSchema: json.RawMessage(`{"type":"object"}`)}, `{"name":"a","inputSchema":{"type":"object"}}`},
		{Tool{Name: "a", Title: "A", Description: "d", InputSchema: json.RawMessage("{}"), OutputSchema: json.RawMessage("{}"), Icons: icons, Meta: meta,
			Annotations: ToolAnnotations{Title: "t", ReadOnlyHint: Yes, DestructiveHint: No}, Shown: func(context.Context) bool { return true }},
			`{"name":"a","title":"A","description":"d","inputSchema":{},"outputSchema":{},"annotations":{"title":"t","readOnlyHint":true,"destructiveHint":false},` + shown},
		{Resource{URI: "x:a", Name: "a"}, `{"uri":"x:a","name":"a"}`},
		{Resource{URI: "x:a", Name: "a", Title: "A", Description: "d", MIMEType: "x/y", Size: 5, Annotations: notes, Icons: icons, Meta: meta, Complete: map[string]CompleteFunc{"a": nil}},
			`{"uri":"x:a","name":"a","title":"A","description":"d","mimeType":"x/y","size":5,"annotations":{"audience":["user"],"priority":0,"lastModified":"2026-01-31T09:30:00Z"},` + shown},
		{Prompt{Name: "a"}, `{"name":"a"}`},
		{Prompt{Name: "a", Title: "A", Description: "d", Arguments: []Argument{{Name: "b", Required: true}, {Name: "c", Title: "C", Description: "d", Complete: words("x")}}, Icons: icons, Meta: meta},
			`{"name":"a","title":"A","description":"d","arguments":[{"name":"b","required":true},{"name":"c","title":"C","description":"d"}],` + shown},
	} {
		if got, err := json.Marshal(test.v); err != nil || string(got) != test.want {
			t.Errorf("got  %s %v\nwant %s", got, err, test.want)
		}
	}
}

// A list of each revision has only the members that the revision knows, and making it does
// not change what was registered.
func TestAListHasWhatItsRevisionKnows(t *testing.T) {
	s := &Server{}
	icons, meta := []Icon{{Src: "https://a"}}, map[string]any{"a": json.RawMessage("[null, 1]")}
	AddTool(s, Tool{Name: "a", Title: "A", Icons: icons, Meta: meta, Annotations: ToolAnnotations{ReadOnlyHint: Yes}, InputSchema: json.RawMessage(`{"type":"object","properties":{"e":{"enum":[null]}}}`),
		OutputSchema: json.RawMessage(`{"type":"array"}`)}, func(context.Context, json.RawMessage) (any, error) { return nil, nil })
	s.AddResource(Resource{URI: "x:{b}", Name: "b", Title: "B", Size: 7, Annotations: &Annotations{Audience: []string{"user"}, LastModified: "2026-01-31T09:30:00Z"}, Icons: icons, Meta: meta}, texts(""))
	s.AddPrompt(Prompt{Name: "c", Title: "C", Arguments: []Argument{{Name: "d", Title: "D"}}, Icons: icons, Meta: meta}, promptOf())
	const (
		schema = `"inputSchema":{"type":"object","properties":{"e":{"enum":[null]}}}`
		output = `"outputSchema":{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}`
		last   = `,"icons":[{"src":"https://a"}]`
		_meta  = `,"_meta":{"a":[null,1]}`
	)
	for range 2 {
		for _, test := range []struct{ version, tool, template, prompt string }{
			{"2024-11-05", `"name":"a",` + schema, `"uriTemplate":"x:{b}","name":"b","annotations":{"audience":["user"]}`, `"name":"c","arguments":[{"name":"d"}]`},
			{"2025-03-26", `"name":"a",` + schema + `,"annotations":{"readOnlyHint":true}`, `"uriTemplate":"x:{b}","name":"b","annotations":{"audience":["user"]}`, `"name":"c","arguments":[{"name":"d"}]`},
			{"2025-06-18", `"name":"a","title":"A",` + schema + `,` + output + `,"annotations":{"readOnlyHint":true}` + _meta,
				`"uriTemplate":"x:{b}","name":"b","title":"B","annotations":{"audience":["user"],"lastModified":"2026-01-31T09:30:00Z"}` + _meta,
				`"name":"c","title":"C","arguments":[{"name":"d","title":"D"}]` + _meta},
			{"2025-11-25", `"name":"a","title":"A",` + schema + `,` + output + `,"annotations":{"readOnlyHint":true}` + last + _meta,
				`"uriTemplate":"x:{b}","name":"b","title":"B","annotations":{"audience":["user"],"lastModified":"2026-01-31T09:30:00Z"}` + last + _meta,
				`"name":"c","title":"C","arguments":[{"name":"d","title":"D"}]` + last + _meta},
		} {
			play(t, s, test.version, `
				> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
				< {"jsonrpc":"2.0","id":1,"result":{"tools":[{`+test.tool+`}]}}
				> {"jsonrpc":"2.0","id":2,"method":"resources/templates/list"}
				< {"jsonrpc":"2.0","id":2,"result":{"resourceTemplates":[{`+test.template+`}]}}
				> {"jsonrpc":"2.0","id":3,"method":"prompts/list"}
				< {"jsonrpc":"2.0","id":3,"result":{"prompts":[{`+test.prompt+`}]}}`)
		}
	}
}

// Every since tag names a revision. A wrong one would be ignored.
func TestSinceTagsNameRevisions(t *testing.T) {
	tags := 0
	for _, v := range []any{Tool{}, Resource{}, Prompt{}, Argument{}, Annotations{}} {
		for i := range reflect.TypeOf(v).NumField() {
			f := reflect.TypeOf(v).Field(i)
			if since, ok := f.Tag.Lookup("since"); ok {
				tags++
				if revisionOf(since) == 0 {
					t.Errorf("%T.%s: %s", v, f.Name, since)
				}
			}
		}
	}
	if tags == 0 {
		t.Error("no tags")
	}
}

// The list and the call of a tool agree on whether its output is wrapped for
// the legacy era.
func TestOneRuleWrapsStructuredOutput(t *testing.T) {
	for schema, wrapped := range map[string]bool{
		`{"type":"object","properties":{}}`:           false,
		`{"properties":{"a":{"type":"integer"}}}`:     true,
		`{"anyOf":[{"type":"object"}]}`:               true,
		`{"type":["object"]}`:                         true,
		`{"type":"array","items":{}}`:                 true,
		`{"$ref":"#/$defs/a","$defs":{"a":{}}}`:       true, // and not listed at all
		`{"type":"object","oneOf":[{"required":[]}]}`: false,
	} {
		for _, out := range []func(context.Context, none) (any, error){
			func(context.Context, none) (any, error) { return map[string]int{"a": 1}, nil },
			func(context.Context, none) (any, error) {
				return &Result{StructuredContent: map[string]int{"a": 1}}, nil
			},
		} {
			s := &Server{}
			AddTool(s, Tool{Name: "x", OutputSchema: json.RawMessage(schema)}, out)
			tool, results := callX(t, s, "2025-06-18", "{}")
			if got := strings.HasPrefix(string(tool.OutputSchema), `{"type":"object","properties":{"result":`); got != (wrapped && !strings.Contains(schema, "$ref")) {
				t.Errorf("%s is listed as %s", schema, tool.OutputSchema)
			}
			object, _ := results[0].Output.(map[string]any)
			if got := object["result"] != nil; got != wrapped {
				t.Errorf("%s: the result is %v", schema, results[0].Output)
			}
		}
	}
}

// A list of itself can be returned: only its schema cannot be written.
func TestListOfItselfIsAnOutput(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "x"}, func(context.Context, struct{}) (selves, error) { return selves{nil, {}}, nil })
	if _, results := callX(t, s, "2025-06-18", "{}"); results[0].Content[0].Text != "[[],[]]" {
		t.Error(results[0])
	}
}

// What user methods return is one line of valid UTF-8 in the end.
func TestOutputIsOneValidLine(t *testing.T) {
	for _, v := range []any{json.RawMessage("{\"a\":\n\"\xff\u2028\u2029\"}"), map[string]any{"k": valJSON{1}}, color(3), []string{"\xc3(", "\u2028"}, struct{ E error }{}} {
		got, err := marshal(v)
		if err != nil || !utf8.Valid(got) || !json.Valid(got) || bytes.ContainsAny(got, "\n\r\u2028\u2029") {
			t.Errorf("%T: %q %v", v, got, err)
		}
		record := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
		record.Add("v", v)
		got, err = LogHandler("").(*logHandler).encodeRecord(t.Context(), record)
		if err != nil || !utf8.Valid(got) || !json.Valid(got) || bytes.ContainsAny(got, "\n\r\u2028\u2029") {
			t.Errorf("logged %T: %q %v", v, got, err)
		}
	}
}

// Values behind an interface cost about what encoding/json needs for them.
func TestDynamicValuesAreCheap(t *testing.T) {
	if raceBuild() {
		t.Skip("the race detector allocates too")
	}
	list := make([]any, 1000)
	for i := range list {
		list[i] = point{X: i}
	}
	s := quick(0)
	AddTool(s, Tool{Name: "list"}, func(context.Context, none) ([]any, error) { return list, nil })
	l := loaded(t, s, false)
	defer l.end()
	line := []byte(callLine(1, "list", "{}"))
	least := testing.AllocsPerRun(20, func() { json.Marshal(list) })
	if n := testing.AllocsPerRun(20, func() { l.play(line, 1) }); n > least+100 {
		t.Errorf("%v allocations, encoding/json alone needs %v", n, least)
	}
}

// What ended the context is what the model reads.
func TestTheModelReadsWhatEndedTheContext(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*client)
		want string
	}{
		{"EOF", func(c *client) { c.in.Close() }, ErrClosed.Error()},
		{"Serve's context", func(c *client) { c.cancel(errors.New("power cut")) }, "power cut"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, demo())
				c.initialize(legacyPV, "{}")
				c.send(call("1", "slow", "{}"))
				synctest.Wait()
				tt.end(c)
				if err := <-c.done; err != nil {
					t.Error("Serve:", err)
				}
				c.want(failed("1", tt.want))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // and the client's cancel, what the handler sees
		causes := make(chan error, 1)
		s := &Server{}
		AddTool(s, Tool{Name: "x"}, func(ctx context.Context, _ none) (string, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", nil
		})
		c := serve(t, s)
		c.initialize(legacyPV, "{}")
		c.send(call("1", "x", "{}"))
		c.want() // it has begun
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"user\u0021"}}`)
		var cancelled *CancelledError
		if err := <-causes; !errors.As(err, &cancelled) || cancelled.Reason != "user!" {
			t.Errorf("cause %v", err)
		}
		c.end()
	})
}

// A nil *Error that a handler returns is an error that says so.
func TestATypedNilErrorIsNoPanic(t *testing.T) {
	var none *Error
	if errors.Is(error(none), errors.ErrUnsupported) || error(none).Error() == "" {
		t.Error("a nil *Error says something else")
	}
	s := &Server{}
	add(s, "bare", func(context.Context) (string, error) { return "", none })
	add(s, "wrapped", func(context.Context) (string, error) { return "", fmt.Errorf("w: %w", none) })
	s.AddPrompt(Prompt{Name: "p"}, func(context.Context, map[string]string) ([]Message, error) { return nil, none })
	const said = "mcp: a nil *Error was returned as an error"
	play(t, s, legacyPV, `
		> `+call("1", "bare", "{}")+`
		< `+failed("1", said)+`
		> `+call("2", "wrapped", "{}")+`
		< `+failed("2", "w: "+said)+`
		> {"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"p"}}
		< `+wrong("3", codeInternal, said))
}

// A code that the protocol reserves is replaced, and that is reported once. That a
// resource is not found has another number in 2026-07-28: there is nothing to report.
func TestReservedErrorCodesAreNotForHandlers(t *testing.T) {
	s := &Server{}
	said := diagnostics(s)
	var code int
	data := map[int]any{ // the schemas want it with these codes
		codeVersion: json.RawMessage(`{"supported":["2026-07-28"],"requested":"x"}`),
		codeURL:     json.RawMessage(`{"elicitations":[]}`),
	}
	fail := func(context.Context) (string, error) { return "", &Error{Code: code, Message: "m", Data: data[code]} }
	answer := func(id string, sent int) string {
		line := wrong(id, sent, "m")
		if d, ok := data[code].(json.RawMessage); ok {
			line = strings.TrimSuffix(line, "}}") + `,"data":` + string(d) + "}}"
		}
		return line
	}
	add(s, "t", fail)
	s.AddPrompt(Prompt{Name: "p"}, func(ctx context.Context, _ map[string]string) ([]Message, error) {
		_, err := fail(ctx)
		return nil, err
	})
	for _, test := range []struct{ code, legacy, modern int }{
		{-32050, codeInternal, codeInternal},
		{-32020, codeInternal, codeInternal},
		{-32099, codeInternal, codeInternal},
		{codeVersion, codeInternal, codeVersion},
		{codeURL, codeURL, codeInternal}, // the legacy revision is 2025-11-25
		{codeNotFound, codeNotFound, codeParams},
		{codeParams, codeParams, codeParams},
		{-32019, -32019, -32019},
		{-32100, -32100, -32100},
		{-1, -1, -1},
		{7, 7, 7},
	} {
		code = test.code
		for _, request := range []string{`"method":"tools/call","params":{"name":"t"`, `"method":"prompts/get","params":{"name":"p"`} {
			said.Reset()
			play(t, s, legacyPV, `
				> {"jsonrpc":"2.0","id":1,`+request+`}}
				< `+answer("1", test.legacy)+`
				> {"jsonrpc":"2.0","id":2,`+request+`,$META}}
				< `+answer("2", test.modern))
			want := 0
			for _, sent := range []int{test.legacy, test.modern} {
				if sent != test.code && test.code != codeNotFound {
					want++
				}
			}
			if got := strings.Count(said.String(), "reserves the error code "+strconv.Itoa(code)); got != want {
				t.Errorf("%d: reported %d times, want %d: %s", code, got, want, said)
			}
		}
	}
}

// ---- lists ----

func (c *client) tools(cursor, next string, names ...string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + cursor + `}}`)
	var v struct {
		Result struct {
			Tools      []struct{ Name string }
			NextCursor *string
		}
	}
	got := c.recv()
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &v) != nil {
		c.t.Fatalf("got %q", got)
	}
	var list []string
	for _, tool := range v.Result.Tools {
		list = append(list, tool.Name)
	}
	if !slices.Equal(list, names) || (v.Result.NextCursor == nil) != (next == "") || next != "" && *v.Result.NextCursor != next {
		c.t.Errorf("got %s\nwant %q and %q", got[0], names, next)
	}
}

// lists are the four kinds of things that come in lists.
var lists = [kinds]struct {
	method, key, name string
	add               func(s *Server, name, description string)
	remove            func(s *Server, names ...string)
	change            string
}{

	{"tools/list", "tools", "name", func(s *Server, name, description string) {
		AddTool(s, Tool{Name: name, Description: description}, func(context.Context, struct{}) (string, error) { return "", nil })
	}, (*Server).RemoveTools, "tools"},
	{"prompts/list", "prompts", "name", func(s *Server, name, description string) {
		s.AddPrompt(Prompt{Name: name, Description: description}, promptOf())
	}, (*Server).RemovePrompts, "prompts"},
	{"resources/list", "resources", "uri", func(s *Server, name, description string) {
		s.AddResource(Resource{URI: "x:" + name, Name: name, Description: description}, texts(""))
	}, removeResources("x:"), "resources"},
	{"resources/templates/list", "resourceTemplates", "uriTemplate", func(s *Server, name, description string) {
		s.AddResource(Resource{URI: "x:{v}" + name, Name: name, Description: description}, texts(""))
	}, removeResources("x:{v}"), "resources"},
}

func removeResources(prefix string) func(*Server, ...string) {
	return func(s *Server, names ...string) {
		for i := range names {
			names[i] = prefix + names[i]
		}
		s.RemoveResources(names...)
	}
}

// page asks for a page of a list. It returns the names, with a description
// behind them if they have one, and the next cursor as raw JSON.
func (c *client) page(method, key, meta, cursor string) (names, next string) {
	c.t.Helper()
	params := strings.Trim(cursor+","+meta, ",")
	c.send(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`)
	got := c.recv()
	var answer struct{ Result map[string]json.RawMessage }
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &answer) != nil || answer.Result == nil {
		c.t.Fatalf("%s {%s}: got %q", method, params, got)
	}
	var items []struct{ Name, Description string }
	if err := json.Unmarshal(answer.Result[key], &items); err != nil {
		c.t.Fatal(err)
	}
	for _, it := range items {
		names += it.Name + it.Description
	}
	return names, string(answer.Result["nextCursor"])
}

// Tools, prompts, resources and templates are listed, paged, replaced and
// removed alike.
func TestFourListsAreOneKindOfThing(t *testing.T) {
	for _, list := range lists {
		for _, era := range eras {
			meta := ""
			if era.version == "" {
				meta = modernParams
			}
			s := &Server{PageSize: 2}
			for _, name := range "abcdefgh" {
				list.add(s, string(name), "")
			}
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				if era.version != "" { // without initialized: nothing is told of changes
					c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
					c.recv()
				}
				check := func(cursor, want string) (next string) {
					t.Helper()
					names, next := c.page(list.method, list.key, meta, cursor)
					if names != want {
						t.Errorf("%s %s: got %q after %s, want %q", era.name, list.method, names, cursor, want)
					}
					if next != "" {
						next = `"cursor":` + next
					}
					return next
				}
				first := check("", "ab")
				if again := check(`"cursor":""`, "ab"); again != first {
					t.Errorf("cursor %s, and then %s", first, again)
				}
				second := check(first, "cd")
				list.remove(s, "a", "d", "nobody")
				check(first, "ce")
				list.add(s, "i", "")
				list.add(s, "e", "!") // replaced, where it stands
				check(first, "ce!")
				third := check(second, "e!f")
				list.remove(s, "f") // where the cursor stands
				list.add(s, "b", "?")
				list.add(s, "d", "") // is new, and so the last
				check("", "b?c")
				last := check(third, "gh")
				if end := check(last, "id"); end != "" {
					t.Errorf("%s: the last page has a %s", list.method, end)
				}
				list.remove(s, "i", "d")
				if end := check(last, ""); end != "" {
					t.Errorf("%s: an empty page has a %s", list.method, end)
				}
				for _, bad := range []string{`"bogus"`, `"-1"`, `"1x"`, `"99999"`, `"99999999999999999999"`, `" "`, `5`, `["1"]`, `{}`} {
					c.script("> 2" + era.plus + " " + list.method + ` {"cursor":` + bad + "}\n< 2! -32602 Invalid cursor")
				}
				c.end()
			})
		}
	}
}

// Pages keep their place when tools come and go; the order is that in which
// they came.
func TestPagesKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{PageSize: 2}
		for _, name := range []string{"e", "d", "c", "b", "a"} {
			toolAs[none](s, name)
		}
		c := serve(t, s)
		c.initialize("2024-11-05", "{}")
		c.send(`{"jsonrpc":"2.0","id":0,"method":"ping"}`)
		c.recv()
		c.tools("", "2", "e", "d")
		c.tools(`"cursor":""`, "2", "e", "d")
		c.tools(`"cursor":"2"`, "4", "c", "b")
		c.tools(`"cursor":"4"`, "", "a")
		c.tools(`"cursor":"5"`, "")
		s.RemoveTools("d", "b", "none of that name")
		c.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		c.tools(`"cursor":"2"`, "", "c", "a")
		c.tools("", "3", "e", "c")
		toolAs[none](s, "d") // again: comes last now
		toolAs[none](s, "c") // replaced: keeps its place
		c.recv()
		c.tools(`"cursor":"1"`, "5", "c", "a")
		c.tools(`"cursor":"5"`, "", "d")
		for _, cursor := range []string{`"7"`, `"-1"`, `"x"`, `"1.0"`, `2`, `{}`} {
			c.talk(`
				> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":` + cursor + `}}
				< ` + wrong("2", -32602, "Invalid cursor"))
		}
		s.RemoveTools("d", "c")
		s.RemoveTools("d", "c") // nothing changes
		c.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		c.end()
	})
}

// What is removed and added again in between stands at the end, and cursors hold.
func TestListsStayInOrderWhileTheyChange(t *testing.T) {
	s := &Server{PageSize: 2}
	more := func(names ...string) {
		for _, name := range names {
			add(s, name, func(context.Context) (string, error) { return "", nil })
		}
	}
	more("a", "b", "c", "d", "e", "f")
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		page := func(cursor string) (names []string, next string) {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"` + cursor + `","_meta":{` + modernMeta + `}}}`)
			return listed(t, c.recv())
		}
		names, next := page("")
		check := func(want string) {
			t.Helper()
			if got := strings.Join(names, " "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		check("a b")
		s.RemoveTools("b", "c", "a", "nobody", "b")
		names, next = page(next)
		check("d e")
		more("a", "d")
		s.RemoveTools("e")
		names, next = page(next)
		check("f a")
		names, _ = page("")
		check("d f")
		c.end()
	})
}

// Two servers made alike give the same list, byte for byte.
func TestListsAreTheSameTwice(t *testing.T) {
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	server := func() *Server {
		s := demo()
		AddTool(s, Tool{Name: "meta", Meta: map[string]any{"c": 1, "a": 2, "b": map[string]int{"y": 1, "x": 2}}},
			func(context.Context, none) (string, error) { return "", nil })
		return s
	}
	first := feed(t, server(), strings.NewReader(list+"\n"+list))
	for range 5 {
		if again := feed(t, server(), strings.NewReader(list+"\n"+list)); first[0] != first[1] || !slices.Equal(first, again) {
			t.Errorf("got %q\nand %q", first, again)
		}
	}
}

// A tool of the same name replaces the one before, and one that was removed is
// unknown.
func TestAToolCanBeReplacedAndRemoved(t *testing.T) {
	s := &Server{}
	out("old", nil)(s)
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.initialize(legacyPV, "{}")
		c.talk("> " + call("1", "x", "{}") + "\n< " + said("1", "old"))
		out("new", nil)(s)
		c.talk(`
			< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
			> ` + call("2", "x", "{}") + `
			< ` + said("2", "new"))
		c.tools("", "", "x")
		s.RemoveTools("x")
		c.talk(`
			< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
			> ` + call("3", "x", "{}") + `
			< ` + wrong("3", -32602, "Unknown tool: x"))
		c.tools("", "")
		c.end()
	})
}

// To remove or replace one of many takes a time that does not depend on how
// many there are.
func TestRemovingOneByOneTakesLinearTime(t *testing.T) {
	const n = 10_000
	s := &Server{}
	name := func(i int) string { return "x:" + strconv.Itoa(i) }
	start := time.Now()
	for i := range n {
		s.AddResource(Resource{URI: name(i), Name: "n"}, texts(""))
	}
	adding := time.Since(start)
	start = time.Now()
	for i := range n { // again: replaced
		s.AddResource(Resource{URI: name(i), Name: "m"}, texts(""))
	}
	replacing := time.Since(start)
	start = time.Now()
	for i := range n {
		s.RemoveResources(name(i))
	}
	removing := time.Since(start)
	if most := 5*adding + 100*time.Millisecond; removing > most || replacing > most {
		t.Errorf("adding %d took %v, replacing them %v, removing them %v", n, adding, replacing, removing)
	}
	if len(s.lists[resources]) > 0 || len(s.items[resources]) > 0 {
		t.Errorf("%d and %d are left", len(s.lists[resources]), len(s.items[resources]))
	}
}

// CacheTTL and CachePublic are sent in the modern era only, in whole
// milliseconds.
func TestListsSayHowLongTheyHold(t *testing.T) {
	for _, test := range []struct {
		ttl    time.Duration
		public bool
		want   string
	}{
		{0, false, `"ttlMs":0,"cacheScope":"private"`},
		{90 * time.Second, true, `"ttlMs":90000,"cacheScope":"public"`},
		{1500 * time.Microsecond, false, `"ttlMs":1,"cacheScope":"private"`},
		{-time.Second, true, `"ttlMs":0,"cacheScope":"public"`},
	} {
		s := &Server{CacheTTL: test.ttl, CachePublic: test.public, PageSize: 1}
		for _, list := range lists {
			list.add(s, "a", "")
			list.add(s, "b", "")
		}
		inBubble(t, s, "2025-11-25", func(c *client) {
			for _, asked := range []string{`tools/list`, `prompts/list`, `resources/list`, `resources/templates/list`, `server/discover`,
				`resources/read {"uri":"x:a"}`, `resources/read {"uri":"x:7a"}`} {
				if got := c.ask("> 1+ " + asked)[0]; !strings.Contains(got, test.want) {
					t.Errorf("%s: %s", asked, got)
				}
				if got := c.ask("> 1 " + asked)[0]; strings.Contains(got, "ttlMs") || strings.Contains(got, "cacheScope") {
					t.Errorf("legacy %s: %s", asked, got)
				}
			}
			for _, asked := range []string{`prompts/get {"name":"a"}`, `tools/call {"name":"a"}`, `resources/read {"uri":"x:nope"}`} {
				if got := c.ask("> 1+ " + asked)[0]; strings.Contains(got, "ttlMs") || strings.Contains(got, "cacheScope") {
					t.Errorf("%s: %s", asked, got)
				}
			}
		})
	}
}

// listed returns the names in the answer to tools/list, and the next cursor.
func listed(t *testing.T, lines []string) (names []string, next string) {
	t.Helper()
	var m struct {
		Result struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
	}
	if len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &m) != nil || m.Result.Tools == nil {
		t.Fatalf("no list: %q", lines)
	}
	for _, tool := range m.Result.Tools {
		names = append(names, tool.Name)
	}
	return names, m.Result.NextCursor
}

// A tool that is not shown is neither listed nor there, page by page, and what
// decides may do anything, since nobody waits for it.
func TestToolsForSomeClientsOnly(t *testing.T) {
	s := &Server{PageSize: 2}
	var seen []*Request
	apps := func(ctx context.Context) bool {
		r := RequestFrom(ctx)
		seen = append(seen, r)
		s.RemoveTools("nobody")       // takes Server.mu
		s.ResourceUpdated("x:nobody") // and that of every session
		return strings.Contains(string(r.Capabilities), `"apps"`)
	}
	plain := func(context.Context) (string, error) { return "hi", nil }
	for i := range 9 {
		var shown func(context.Context) bool
		if i%3 != 0 {
			shown = apps
		}
		AddTool(s, Tool{Name: fmt.Sprint("t", i), Shown: shown}, func(ctx context.Context, _ none) (string, error) { return plain(ctx) })
	}
	AddTool(s, Tool{Name: "wrong", Shown: func(context.Context) bool { panic("oh") }}, func(ctx context.Context, _ none) (string, error) { return plain(ctx) })
	names := func(c *client, capabilities string) (pages []string) {
		next := ""
		for {
			c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"` + next + `","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`)
			var page []string
			page, next = listed(t, c.recv())
			if pages = append(pages, strings.Join(page, " ")); next == "" {
				return pages
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"9","_meta":{` + modernMeta + `}}}`)
		c.want(wrong("1", codeInternal, "Internal error")) // "wrong" costs this request only
		s.RemoveTools("wrong")
		if got, want := names(c, `{}`), []string{"t0 t3", "t6"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := names(c, `{"experimental":{"apps":{}}}`), []string{"t0 t1", "t2 t3", "t4 t5", "t6 t7", "t8"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		seen = nil
		c.talk(`
			> ` + modernCall("2", "t1") + `
			< ` + wrong("2", codeParams, "Unknown tool: t1") + `
			> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t1","arguments":[],$META}}
			< ` + wrong("3", codeParams, "Unknown tool: t1") + `
			> {"jsonrpc":"2.0","id":"4","method":"tools/call","params":{"name":"t1","arguments":[],"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"experimental":{"apps":{}}}}}}
			< ` + wrong(`"4"`, codeParams, "Invalid params: arguments must be an object") + `
			> {"jsonrpc":"2.0","id":"5","method":"tools/call","params":{"name":"t1","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"experimental":{"apps":{}}}}}}
			< ` + modernSaid(`"5"`, "hi"))
		if len(seen) != 4 || seen[3].Name != "t1" || seen[3].Method != "tools/call" || string(seen[3].ID) != `"5"` {
			t.Errorf("asked %d times, %+v", len(seen), seen)
		}
		c.initialize(legacyPV, `{"experimental":{"apps":{}}}`)
		c.send(call("6", "t2", "{}"))
		c.want(said("6", "hi"))
		c.end()
	})
}

// A list that another client may see otherwise is nobody's to share, nor is a page of it that
// all would see alike.
func TestAListWithHiddenToolsIsNotCached(t *testing.T) {
	s := &Server{CacheTTL: time.Minute, CachePublic: true}
	AddTool(s, Tool{Name: "t", Shown: func(context.Context) bool { return false }}, func(context.Context, none) (string, error) { return "", nil })
	play(t, s, legacyPV, `
		> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$META}}
		< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",$SRV}}
		> {"jsonrpc":"2.0","id":"1b","method":"tools/list","params":{"cursor":"1",$META}}
		< {"jsonrpc":"2.0","id":"1b","result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",$SRV}}
		> {"jsonrpc":"2.0","id":2,"method":"tools/list"}
		< {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}
		> {"jsonrpc":"2.0","id":3,"method":"prompts/list"}
		< {"jsonrpc":"2.0","id":3,"result":{"prompts":[]}}`)
}

// Whoever decides slowly who sees a tool holds up nobody else.
func TestShownIsNotWaitedFor(t *testing.T) {
	s := &Server{}
	release := make(chan struct{})
	AddTool(s, Tool{Name: "slow", Shown: func(context.Context) bool { <-release; return true }}, func(context.Context, none) (string, error) { return "", nil })
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		c := serve(t, s)
		c.initialize(legacyPV, `{}`)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, call("2", "slow", "{}"), pingLine)
		time.Sleep(time.Second) // of the bubble's own time
		c.want(pongLine)
		close(release)
		got := c.recv()
		slices.Sort(got) // they may come in any order
		if len(got) != 2 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":1,"result":{"tools":[`) || got[1] != said("2", "") {
			t.Errorf("got %q", got)
		}
		c.end()
	})
}

// ---- resources ----

// Resources and templates are listed with the fields that the revision knows.
func TestResourcesAreListedWithAllTheirFields(t *testing.T) {
	full := Resource{
		Name: "full", Title: "Full", Description: "All of it", MIMEType: "text/plain", Size: 3,
		Annotations: &Annotations{Audience: []string{"user", "assistant"}, Priority: ptr(0.5), LastModified: "2026-01-02T03:04:05Z"},
		Icons:       []Icon{{Src: "data:,x", MIMEType: "image/png", Sizes: []string{"any"}, Theme: "dark"}},
		Meta:        map[string]any{"example.com/a": 1},
	}
	s := &Server{}
	for _, uri := range []string{"demo://full", "demo://bare", "demo://{x}/full", "demo://{x}/bare"} {
		r := Resource{Name: "bare"}
		if strings.HasSuffix(uri, "full") {
			r = full
		}
		r.URI = uri
		s.AddResource(r, texts(""))
	}
	const common = `"name":"full","description":"All of it","mimeType":"text/plain","annotations":{"audience":["user","assistant"],"priority":0.5}`
	more := strings.Replace(common, `0.5`, `0.5,"lastModified":"2026-01-02T03:04:05Z"`, 1) + `,"title":"Full","_meta":{"example.com/a":1}`
	most := more + `,"icons":[{"src":"data:,x","mimeType":"image/png","sizes":["any"],"theme":"dark"}]`
	for version, members := range map[string]string{"2024-11-05": common, "2025-03-26": common, "2025-06-18": more, "2025-11-25": most, "": most} {
		members = strings.Join(strings.Fields(members), " ")
		ask, answer := "", ""
		if version == "" {
			ask, answer = "+", "*"
		}
		inBubble(t, s, version, func(c *client) {
			c.script(fmt.Sprintf(`
				> 1%[1]s resources/list
				< 1%[2]s {"resources":[{"uri":"demo://full","size":3,%[3]s},{"uri":"demo://bare","name":"bare"}]}
				> 2%[1]s resources/templates/list
				< 2%[2]s {"resourceTemplates":[{"uriTemplate":"demo://{x}/full",%[3]s},{"uriTemplate":"demo://{x}/bare","name":"bare"}]}`,
				ask, answer, members))
		})
	}
}

// A Priority of 0 is sent, and one that was not set is not.
func TestPriorityZeroIsSent(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "x:a", Name: "a", Annotations: &Annotations{Priority: ptr(0.0)}}, texts(""))
	s.AddResource(Resource{URI: "x:b", Name: "b", Annotations: &Annotations{Audience: []string{"user"}}}, texts(""))
	play(t, s, legacyPV, `
		> {"jsonrpc":"2.0","id":1,"method":"resources/list"}
		< {"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"x:a","name":"a","annotations":{"priority":0}},{"uri":"x:b","name":"b","annotations":{"audience":["user"]}}]}}`)
}

// A resource is read as text or bytes, and what fails has the error of its era.
func TestResourcesAreRead(t *testing.T) {
	s := &Server{}
	add := func(name string, err error, contents ...ResourceContents) {
		s.AddResource(Resource{URI: "demo://" + name, Name: name, MIMEType: "text/x"},
			func(context.Context, string, map[string]string) ([]ResourceContents, error) { return contents, err })
	}
	add("text", nil, ResourceContents{Text: "A\n<b>"})
	add("blob", nil, ResourceContents{Blob: []byte{0, 255}, Text: "not this", MIMEType: "image/png"})
	add("empty", nil, ResourceContents{}, ResourceContents{Blob: []byte{}})
	add("many", nil, ResourceContents{URI: "demo://many/1", Text: "1"}, ResourceContents{URI: "demo://many/2", Meta: map[string]any{"k": "v"}})
	add("nothing", nil)
	add("gone", fmt.Errorf("open: %w", &fs.PathError{Op: "open", Path: "/etc/secret", Err: fs.ErrNotExist}))
	add("burns", errors.New("disk on fire"))
	add("refuses", fmt.Errorf("wrapped: %w", &Error{Code: 7, Message: "not you", Data: map[string]int{"n": 1}}))
	add("codeless", &Error{Message: "no code"})
	add("odd", nil, ResourceContents{Meta: map[string]any{"c": make(chan int)}})
	s.AddResource(Resource{URI: "demo://panics", Name: "p"}, func(context.Context, string, map[string]string) ([]ResourceContents, error) { panic("secret") })
	s.AddResource(Resource{URI: "demo://t/{x}/{+y}", Name: "t"}, func(_ context.Context, uri string, vars map[string]string) ([]ResourceContents, error) {
		return []ResourceContents{{Text: fmt.Sprint(uri, " ", vars)}}, nil
	})
	for _, test := range []struct{ uri, want string }{
		{"text", `{"contents":[{"uri":"demo://text","mimeType":"text/x","text":"A\n<b>"}]}`},
		{"blob", `{"contents":[{"uri":"demo://blob","mimeType":"image/png","blob":"AP8="}]}`},
		{"empty", `{"contents":[{"uri":"demo://empty","mimeType":"text/x","text":""},{"uri":"demo://empty","mimeType":"text/x","blob":""}]}`},
		{"many", `{"contents":[{"uri":"demo://many/1","mimeType":"text/x","text":"1"},{"uri":"demo://many/2","mimeType":"text/x","text":"","_meta":{"k":"v"}}]}`},
		{"nothing", `{"contents":[]}`},
		{"t/a%20b/c/d", `{"contents":[{"uri":"demo://t/a%20b/c/d","text":"demo://t/a%20b/c/d map[x:a b y:c/d]"}]}`},
		{"gone", `! NOTFOUND Resource not found {"uri":"demo://gone"}`},
		{"unknown", `! NOTFOUND Resource not found {"uri":"demo://unknown"}`},
		{"burns", `! -32603 disk on fire`},
		{"refuses", `! 7 not you {"n":1}`},
		{"codeless", `! -32603 no code`},
		{"odd", `! -32603 Internal error`},
		{"panics", `! -32603 Internal error`},
	} {
		for _, era := range eras {
			answer, code := " ", "-32002"
			if era.plus != "" {
				answer, code = "* ", "-32602"
			}
			if test.want[0] == '!' {
				answer = ""
			}
			inBubble(t, s, era.version, func(c *client) {
				c.script(fmt.Sprintf("> 1%s resources/read {\"uri\":\"demo://%s\"}\n< 1%s%s", era.plus, test.uri, answer, strings.Replace(test.want, "NOTFOUND", code, 1)))
			})
		}
	}
	inBubble(t, s, "2025-03-26", func(c *client) {
		c.script(`
			# contents have a _meta only from 2025-06-18 on
			> 1 resources/read {"uri":"demo://many"}
			< 1 {"contents":[{"uri":"demo://many/1","mimeType":"text/x","text":"1"},{"uri":"demo://many/2","mimeType":"text/x","text":""}]}
			> 2 resources/read {}
			< 2! -32602 Invalid params: uri is required
			> 3 resources/read {"uri":5}
			< 3! -32602 Invalid params: uri is required
			> 4 resources/read
			< 4! -32602 Invalid params: uri is required`)
		s.RemoveResources("demo://text", "demo://never")
		c.script(`< notifications/resources/list_changed`)
		s.RemoveResources("demo://t/{x}/{+y}")
		c.script(`
			< notifications/resources/list_changed
			> 5 resources/read {"uri":"demo://text"}
			< 5! -32002 Resource not found {"uri":"demo://text"}
			> 6 resources/read {"uri":"demo://t/a/b"}
			< 6! -32002 Resource not found {"uri":"demo://t/a/b"}`)
	})
}

// What was read with the user's answers is declared private and stale.
func TestWhatWasAskedForIsNotCached(t *testing.T) {
	s := &Server{CacheTTL: time.Minute, CachePublic: true}
	s.AddResource(Resource{URI: "x:a", Name: "a"}, texts("A"))
	asked := func(id, more string) string {
		return `> {"jsonrpc":"2.0","id":` + id + `,"method":"resources/read","params":{"uri":"x:a",` + more + `$META}}` + "\n"
	}
	got := func(id, hints string) string {
		return `< {"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","contents":[{"uri":"x:a","text":"A"}],` + hints + `,$SRV}}` + "\n"
	}
	const fresh, private = `"ttlMs":60000,"cacheScope":"public"`, `"ttlMs":0,"cacheScope":"private"`
	play(t, s, "", asked("1", "")+got("1", fresh)+
		asked("2", `"inputResponses":{},`)+got("2", private)+
		asked("3", `"requestState":"x",`)+got("3", private)+
		asked("4", `"inputResponses":null,"requestState":null,`)+got("4", fresh))
}

// Resources, templates and prompts that cannot be served panic at registration,
// and nothing is added.
func TestWrongResourcesAndPromptsPanic(t *testing.T) {
	s := &Server{}
	add := func(r Resource) func() { return func() { s.AddResource(r, texts("")) } }
	for _, uri := range []string{"", "noscheme", "{scheme}://a", "x://{", "x://{a", "x://}", "x://a}b", "x://{}", "x://{+}", "x://{a}{b}",
		"x://{a}/{a}", "x://{a}/{+a}", "x://{a-b}", "x://{/a}", "x://{a*}", "x://{a,b}", "x://{{a}}", "x://{?q}"} {
		mustPanic(t, map[string]func(){fmt.Sprintf("%q", uri): add(Resource{URI: uri, Name: "n"})})
	}
	mustPanic(t, map[string]func(){
		`"x:y"`:                add(Resource{URI: "x:y"}),
		`no variable "b"`:      add(Resource{URI: "x://{a}", Name: "n", Complete: map[string]CompleteFunc{"b": words()}}),
		`no variable "c"`:      add(Resource{URI: "x://c", Name: "n", Complete: map[string]CompleteFunc{"c": words()}}),
		`"x:m": Meta`:          add(Resource{URI: "x:m", Name: "n", Meta: map[string]any{"f": math.NaN()}}),
		`"x:nil"`:              func() { s.AddResource(Resource{URI: "x:nil", Name: "n"}, nil) },
		`"nil"`:                func() { s.AddPrompt(Prompt{Name: "nil"}, nil) },
		`prompt needs a name`:  func() { s.AddPrompt(Prompt{}, promptOf()) },
		`prompt "p": an argum`: func() { s.AddPrompt(Prompt{Name: "p", Arguments: []Argument{{}}}, promptOf()) },
		`prompt "q": an argum`: func() { s.AddPrompt(Prompt{Name: "q", Arguments: []Argument{{Name: "a"}, {Name: "a"}}}, promptOf()) },
		`prompt "r": Meta`:     func() { s.AddPrompt(Prompt{Name: "r", Meta: map[string]any{"f": func() {}}}, promptOf()) },
	})
	for k, added := range s.items {
		if len(added) != 0 {
			t.Errorf("%d of the %s were added all the same", len(added), kindNames[k])
		}
	}
}

// A URI that no client may send panics at registration, and the message says
// how to write that of a file.
func TestResourceURIsAreLegal(t *testing.T) {
	const how = `for a file, write (&url.URL{Scheme: "file", Path: path}).String()`
	for _, uri := range []string{"file:///my file.txt", "file:///a%zz", "file:///a%2", "file:///\u00e9", "file:///a|b", "file:///a\"b", "file:///<a>", `file:///a\b`, "file:///a\n", "file:///a^", "file:///a}b", "file:///{a}b}"} {
		wantPanic(t, how, func() { (&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts("")) })
	}
	for _, uri := range []string{"notes.txt", "/notes.txt", ":x", "1x:y", "x y:z", "{a}:b", ""} {
		wantPanic(t, "begin with a scheme", func() { (&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts("")) })
	}
	for _, uri := range []string{"x:../{a}", "x://h/./{a}", "x://h/{a}/..", "x://h/%2e/{a}"} {
		wantPanic(t, "no URI would match it", func() { (&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts("")) })
	}
	for _, uri := range []string{"file:///my%20file%7B1%7D.txt", "urn:x:y", "git+ssh://u@h:1/p?q=[1]#f", "x:", "ui://a/b;v=1,2!$&'()*+~", "note://{id}", "x://h/{+p}?q={q}"} {
		(&Server{}).AddResource(Resource{URI: uri, Name: "n"}, texts(""))
	}
}

// ---- templates ----

// A template fits the URIs that its expansion can make, and its values never
// climb out of their place.
func TestTemplatesMatchWhatTheyExpandTo(t *testing.T) {
	for _, test := range []struct{ template, fits, refused string }{ // fits: URIs and their values, a blank written as _
		{"note://{id}", `note://7 id=7  note://{id} id={id}  note://a+b&c=d;e,f:g@h id=a+b&c=d;e,f:g@h  note://é id=é`,
			`note:// note:/7 Note://7 note://7/8 note://7/ note://7?q note://7#f xnote://7`},
		{"note://{id}/", `note://7/ id=7`, `note://7 note://7//`},
		{"note://{id}/x", ``, `note://7/xx note://7/`},
		{"db://{groesse}", `db://7 groesse=7`, ``},
		{"db://{table}/{row}", `db://t/r table=t,row=r`, `db:///r db://t/ db://t/r/s db://../r db://t/..`},
		{"db://{a}-{b}", `db://1-2-3 a=1,b=2-3  db://1--2 a=1,b=-2`, `db://12 db://-2 db://1-`},
		{"db://{a}.txt", `db://1.txt.txt a=1.txt`, `db://.txt`},

		{"file:///{+path}", `file:///a/b.txt path=a/b.txt  file:///a?b#c path=a?b#c`, `file:/// file://a file:///./a file:///a/.?b`},
		{"file:///{+path}/x", `file:///x/x/x path=x/x`, `file:///x`},
		{"file:///{+dir}/{name}.txt", `file:///a/b/c.txt dir=a/b,name=c  file:///a/b.txt/c.txt dir=a/b.txt,name=c`,
			`file:///a/.txt file:///c.txt file:///a/b/c.md file:///a/b.txt/c`},
		{"file:///{+a}/x/{+b}", `file:///1/x/2/x/3 a=1,b=2/x/3`, ``},
		{"file:///{+a}/x/{b}", `file:///1/x/2/x/3 a=1/x/2,b=3`, ``}, // the first try leads nowhere
		{"x:{+a}/{b}-{+c}!{d}", `x:1/2/3-4!5-6!7 a=1/2,b=3,c=4,d=5-6!7`, `x:1/2-3!4/5 x:1-2!3`},

		// Escapes are decoded once, and never taken apart.
		{"p://{x}", `p://%41%62%C3%a9 x=Abé  p://%25%32%46 x=%2F  p://%3F%23%20 x=?#_`, `p://% p://%4 p://a%4 p://%zz p://%+1 p://%ff p://%c3 p://a%00b`},
		{"p://{x}2{y}", `p://%202%20 x=_,y=_`, `p://%2F`},
		{"p://{x}F", ``, `p://%2F`},

		// No value leads out of its place.
		{"p://{x}", `p://... x=...  p://..a x=..a  p://a..b x=a..b`, `p://a%2Fb p://a%2fb p://a%5Cb p://a\b p://.. p://. p://%2e%2E p://%2e`},
		{"p://{+x}", `p://a/..b/c.. x=a/..b/c..  p://a%2Fb x=a/b`,
			`p://.. p://../a p://a/.. p://a/../b p://a/%2e%2e/b p://a%2F..%2Fb p://a\..\b p://a%5c.. p://a%00b`},
		{"p://{x}.{y}", `p://a..b x=a,y=.b`, `p://a.. p://...a`},
		{"file:///{+a}/{b}", ``, `file:///../x/y file:///x/..`},
	} {
		s := &Server{}
		s.AddResource(Resource{URI: test.template, Name: "n"}, texts(""))
		check := func(uri, want string) {
			got := "no"
			if it, vars := s.findItem(resources, uri); it != nil {
				got = ""
				for _, name := range it.args {
					got += "," + name + "=" + strings.ReplaceAll(vars[name], " ", "_")
				}
				if got = got[1:]; len(vars) != len(it.args) {
					t.Errorf("%s in %s: %v", uri, test.template, vars)
				}
			}
			if got != want {
				t.Errorf("%s in %s: got %s, want %s", uri, test.template, got, want)
			}
		}
		for pair := range slices.Chunk(strings.Fields(test.fits), 2) {
			check(pair[0], pair[1])
		}
		for _, uri := range strings.Fields(test.refused) {
			check(uri, "no")
		}
	}
}

// No value forms "." or ".." with what stands beside it in the template.
func TestNoValueMakesADotSegment(t *testing.T) {
	for _, test := range []struct{ template, fits, refused string }{
		{"file:///home/u/.{+path}", "file:///home/u/.bashrc file:///home/u/.config/x",
			"file:///home/u/../root/.ssh/id_rsa file:///home/u/.%2E/root file:///home/u/..%2froot file:///home/u/./x file:///home/u/.. file:///home/u/..?q file:///home/u/.%3fq"},
		{"x://h/{a}.{b}", "x://h/a.b x://h/a..b", "x://h/a.. x://h/..b/"},
		{"x://h/.{a}", "x://h/.a x://h/...a", "x://h/.. x://h/.%2e x://h/..."},
		{"x://h/%2e{a}/b", "x://h/%2ea/b", "x://h/%2e./b x://h/%2e%2e/b"},
		{"x:..{+a}", "x:..a", "x:../a x:..%5Ca"},
		{"x://h/{+a}.", "x://h/a.", "x://h/a/. x://h/a/.. x://h/.."},
		{"x://h/{+a}", "x://h/a/b x://h/a/.b/c. x://h/a/...", "x://h/. x://h/./a x://h/a/. x://h/a/./b x://h/a/../b"},
	} {
		s := &Server{}
		s.AddResource(Resource{URI: test.template, Name: "n"}, texts(""))
		for _, uri := range strings.Fields(test.fits) {
			if it, _ := s.findItem(resources, uri); it == nil {
				t.Errorf("%s does not fit %s", uri, test.template)
			}
		}
		for _, uri := range strings.Fields(test.refused) {
			if it, vars := s.findItem(resources, uri); it != nil {
				t.Errorf("%s fits %s: %v", uri, test.template, vars)
			}
		}
	}
}

// A resource that has the very URI goes before all templates, and these in the
// order in which they were added.
func TestTheFirstFittingTemplateReads(t *testing.T) {
	s := &Server{}
	for _, uri := range []string{"x://{+all}", "x://{a}/one", "x://1/one", "x://1/{b}", "y://{a}", "y://{+all}"} {
		s.AddResource(Resource{URI: uri, Name: "n"}, texts(uri))
	}
	inBubble(t, s, "2025-11-25", func(c *client) {
		check := func(uri, by string) {
			t.Helper()
			c.script(`
				> 1 resources/read {"uri":"` + uri + `"}
				< 1 {"contents":[{"uri":"` + uri + `","text":"` + by + `"}]}`)
		}
		check("x://1/one", "x://1/one")
		check("x://2/one", "x://{+all}")
		check("y://2", "y://{a}")
		check("y://2/3", "y://{+all}")
		s.RemoveResources("x://{+all}")
		c.script("< notifications/resources/list_changed")
		check("x://2/one", "x://{a}/one")
		check("x://1/two", "x://1/{b}")
		s.AddResource(Resource{URI: "x://{a}/one", Name: "again"}, texts("replaced"))
		c.script("< notifications/resources/list_changed")
		check("x://2/one", "replaced")
	})
}

// Input that would take a naive matcher years.
func TestTemplatesMatchInTimeWhateverIsSent(t *testing.T) {
	for template, uri := range map[string]string{
		"x:{+a}/{+b}/{+c}/{+d}/{+e}/{+f}/{+g}!":   "x:" + strings.Repeat("a/", 2000),
		"x:{+a}a{+b}a{+c}a{+d}a{+e}b":             "x:" + strings.Repeat("a", 4000),
		"x:{a}-{b}-{c}-{d}-{e}-{f}-{g}-{h}-{i}/j": "x:" + strings.Repeat("-", 4000),
		"x:{+a}/{+b}/{+c}":                        "x:%00" + strings.Repeat("/a", 2000),
		"x:{+a}":                                  "x:" + strings.Repeat("../", 20_000),
	} {
		s := &Server{}
		s.AddResource(Resource{URI: template, Name: "n"}, texts(""))
		start := time.Now()
		if it, vars := s.findItem(resources, uri); it != nil {
			t.Errorf("%s: a match: %.100v", template, vars)
		}
		t.Logf("%v %s", time.Since(start), template)
	}
}

// What is too long to be a URI is not held against every template.
func TestAVeryLongURIFitsNoTemplate(t *testing.T) {
	s := &Server{}
	s.AddResource(Resource{URI: "x:{+a}", Name: "n"}, texts(""))
	longest := "x:" + strings.Repeat("a", maxMatched-2)
	if it, _ := s.findItem(resources, longest); it == nil {
		t.Error("the longest is not found")
	}
	if it, _ := s.findItem(resources, longest+"a"); it != nil {
		t.Error("a longer one is found")
	}
	s.AddResource(Resource{URI: longest + "a", Name: "n"}, texts(""))
	if it, _ := s.findItem(resources, longest+"a"); it == nil || it.name != longest+"a" {
		t.Error("a longer one that is there is not found")
	}
}

// ---- prompts and completion ----

// Prompts are listed, their arguments checked, and their messages sent.
func TestPromptsAreListedAndGot(t *testing.T) {
	s := &Server{}
	s.AddPrompt(Prompt{
		Name: "greet", Title: "Greet", Description: "Greets",
		Arguments: []Argument{{Name: "name", Title: "Name", Description: "whom", Required: true}, {Name: "how"}},
		Icons:     []Icon{{Src: "data:,x"}}, Meta: map[string]any{"k": "v"},
	}, func(_ context.Context, args map[string]string) ([]Message, error) {
		return []Message{{Content: Text(fmt.Sprint(args))}, {"assistant", Text("hm")}}, nil
	})
	fails := func(name string, err error) {
		s.AddPrompt(Prompt{Name: name}, func(context.Context, map[string]string) ([]Message, error) { return nil, err })
	}
	fails("empty", nil)
	fails("burns", errors.New("disk on fire"))
	fails("refuses", errors.Join(errors.New("x"), &Error{Code: -32602, Message: "not so"}))
	s.AddPrompt(Prompt{Name: "panics"}, func(context.Context, map[string]string) ([]Message, error) { panic("secret") })
	s.AddPrompt(Prompt{Name: "lacks"}, promptOf(Content{Type: "image/png"}))
	s.AddPrompt(Prompt{Name: "commands"}, func(context.Context, map[string]string) ([]Message, error) {
		return []Message{{"system", Text("obey")}}, nil
	})
	const args = `"arguments":[{"name":"name","description":"whom","required":true},{"name":"how"}]`
	const titled = `"arguments":[{"name":"name","title":"Name","description":"whom","required":true},{"name":"how"}]`
	others := `,{"name":"empty"},{"name":"burns"},{"name":"refuses"},{"name":"panics"},{"name":"lacks"},{"name":"commands"}`
	for version, members := range map[string]string{
		"2024-11-05": args, "2025-03-26": args,
		"2025-06-18": titled + `,"title":"Greet","_meta":{"k":"v"}`,
		"2025-11-25": titled + `,"title":"Greet","_meta":{"k":"v"},"icons":[{"src":"data:,x"}]`,
	} {
		inBubble(t, s, version, func(c *client) {
			c.script(`
				> 1 prompts/list
				< 1 {"prompts":[{"name":"greet","description":"Greets",` + members + `}` + others + `]}`)
		})
	}
	greeted := func(args string) string {
		return ` {"description":"Greets","messages":[{"role":"user","content":{"type":"text","text":"` + args + `"}},{"role":"assistant","content":{"type":"text","text":"hm"}}]}`
	}
	for params, want := range map[string]string{
		`{"name":"greet","arguments":{"name":"Ann"}}`:         greeted("map[name:Ann]"),
		`{"name":"greet","arguments":{"name":"","how":"so"}}`: greeted("map[how:so name:]"),
		`{"name":"greet","arguments":{"\u006eame":"\u0041"}}`: greeted("map[name:A]"),
		`{"name":"greet"}`:                                      `! -32602 Missing required argument: name`,
		`{"name":"greet","arguments":null}`:                     `! -32602 Missing required argument: name`,
		`{"name":"greet","arguments":{}}`:                       `! -32602 Missing required argument: name`,
		`{"name":"greet","arguments":{"Name":"Ann"}}`:           `! -32602 Unknown argument: Name`,
		`{"name":"greet","arguments":{"name":"Ann","who":"x"}}`: `! -32602 Unknown argument: who`,
		`{"name":"greet","arguments":{"name":5}}`:               `! -32602 Invalid params: arguments.name must be a string, got 5`,
		`{"name":"greet","arguments":{"name":null}}`:            `! -32602 Invalid params: arguments.name must be a string, got null`,
		`{"name":"greet","arguments":["Ann"]}`:                  `! -32602 Invalid params: arguments must be an object, got ["Ann"]`,
		`{"name":"greet","arguments":"Ann"}`:                    `! -32602 Invalid params: arguments must be an object, got "Ann"`,
		`{"name":"greet","arguments":{"name":"A","name":"B"}}`:  `! -32602 Invalid params: arguments.name came twice`,
		`{"name":"nope"}`:                                       `! -32602 Unknown prompt: nope`,
		`{"name":7}`:                                            `! -32602 Invalid params: name is required`,
		`{}`:                                                    `! -32602 Invalid params: name is required`,
		`{"name":"empty"}`:                                      ` {"messages":[]}`,
		`{"name":"burns"}`:                                      `! -32603 disk on fire`,
		`{"name":"refuses"}`:                                    `! -32602 not so`,
		`{"name":"panics"}`:                                     `! -32603 Internal error`,
		`{"name":"lacks"}`:                                      `! -32603 Internal error`,
		`{"name":"commands"}`:                                   `! -32603 Internal error`,
	} {
		for _, era := range eras {
			plus := era.plus
			if want[0] == '!' {
				plus = ""
			}
			inBubble(t, s, era.version, func(c *client) {
				c.script("> 1" + era.plus + " prompts/get " + params + "\n< 1" + plus + want)
			})
		}
	}
}

// Content that a revision does not know becomes a text.
func TestUnknownContentBecomesAText(t *testing.T) {
	meta, notes := map[string]any{"k": 1}, &Annotations{Audience: []string{"user"}}
	s := &Server{}
	s.AddPrompt(Prompt{Name: "all"}, promptOf(
		Content{Text: "plain", Meta: meta, Annotations: notes},
		Image([]byte{1}, "image/png"),
		Audio([]byte{1, 2}, "audio/wav"),
		ResourceLink(Resource{URI: "demo://a", Name: "a", Title: "A", Size: 5, Meta: meta}),
		Content{Type: "resource_link", Link: &Resource{URI: "demo://a", Name: "a"}, Meta: meta, Annotations: notes},
		EmbeddedResource(ResourceContents{URI: "demo://b", MIMEType: "text/x", Text: "B", Meta: meta}),
		EmbeddedResource(ResourceContents{URI: "demo://c", Blob: []byte{3}}),
	))
	blocks := [...][2]string{ // as it is, and as it was
		{`"type":"text","text":"plain","annotations":{"audience":["user"]},"_meta":{"k":1}`, `"type":"text","text":"plain","annotations":{"audience":["user"]}`},
		{`"type":"image","data":"AQ==","mimeType":"image/png"`, ``},
		{`"type":"audio","data":"AQI=","mimeType":"audio/wav"`, `"type":"text","text":"[audio, audio/wav, 2 bytes]"`},
		{`"type":"resource_link","uri":"demo://a","name":"a","title":"A","size":5,"_meta":{"k":1}`, `"type":"text","text":"a: demo://a"`},
		{`"type":"resource_link","uri":"demo://a","name":"a","annotations":{"audience":["user"]},"_meta":{"k":1}`, `"type":"text","text":"a: demo://a","annotations":{"audience":["user"]}`},
		{`"type":"resource","resource":{"uri":"demo://b","mimeType":"text/x","text":"B","_meta":{"k":1}}`, `"type":"resource","resource":{"uri":"demo://b","mimeType":"text/x","text":"B"}`},
		{`"type":"resource","resource":{"uri":"demo://c","blob":"Aw=="}`, ``},
	}
	since := [...]string{"2025-06-18", "", "2025-03-26", "2025-06-18", "2025-06-18", "2025-06-18", ""}
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", ""} {
		var messages []string
		for i, b := range blocks {
			block := b[0]
			if version != "" && version < since[i] {
				block = b[1]
			}
			messages = append(messages, `{"role":"user","content":{`+block+`}}`)
		}
		plus := ""
		if version == "" {
			plus = "+"
		}
		inBubble(t, s, version, func(c *client) {
			c.script("> 1" + plus + ` prompts/get {"name":"all"}` + "\n< 1" + plus + ` {"messages":[` + strings.Join(messages, ",") + `]}`)
		})
	}
}

// An argument completes itself, knows the others that were typed, and sends a
// hundred values at most.
func TestCompletionBelongsToItsArgument(t *testing.T) {
	var many []string
	for i := range 150 {
		many = append(many, strconv.Itoa(i))
	}
	s := &Server{}
	s.AddPrompt(Prompt{Name: "p", Arguments: []Argument{
		{Name: "echo", Complete: func(_ context.Context, typed string, known map[string]string) ([]string, error) {
			return []string{typed, fmt.Sprint(known)}, nil
		}},
		{Name: "many", Complete: words(many...)},
		{Name: "full", Complete: words(many[:100]...)},
		{Name: "none", Complete: words()},
		{Name: "plain"},
		{Name: "burns", Complete: func(context.Context, string, map[string]string) ([]string, error) {
			return nil, errors.New("disk on fire")
		}},
		{Name: "refuses", Complete: func(context.Context, string, map[string]string) ([]string, error) {
			return nil, &Error{Code: 3, Message: "no"}
		}},
		{Name: "panics", Complete: func(context.Context, string, map[string]string) ([]string, error) { panic("secret") }},
	}}, promptOf())
	s.AddResource(Resource{URI: "db://{table}/{+row}", Name: "row", Complete: map[string]CompleteFunc{"row": words("r1", "r2")}}, texts(""))
	s.AddResource(Resource{URI: "db://fixed", Name: "fixed"}, texts(""))

	list := func(values []string, total int, more bool) string {
		quoted, _ := json.Marshal(values)
		return fmt.Sprintf(` {"completion":{"values":%s,"total":%d,"hasMore":%t}}`, quoted, total, more)
	}
	const unknown = "! -32602 Invalid params: there is no such argument to complete"
	prompt := func(arg string) string {
		return `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"` + arg + `","value":"v"}}`
	}
	ref := func(ref string) string { return `{"ref":` + ref + `,"argument":{"name":"row","value":""}}` }
	for params, want := range map[string]string{
		prompt("echo"): list([]string{"v", "map[]"}, 2, false),
		`{"ref":{"type":"ref/prompt","name":"p","title":"x"},"argument":{"name":"echo","value":""},"context":{"arguments":{"many":"7","other":"x"}}}`: list([]string{"", "map[many:7 other:x]"}, 2, false),
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":""},"context":{}}`:                                                 list([]string{"", "map[]"}, 2, false),
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":""},"context":{"arguments":null}}`:                                 list([]string{"", "map[]"}, 2, false),
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":""},"context":{"arguments":{"many":7}}}`:                           "! -32602 Invalid params: context.arguments: many must be a string, got 7",
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":""},"context":{"arguments":{"a":"","a":""}}}`:                      "! -32602 Invalid params: context.arguments: a came twice",
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":"","value":""}}`:                                                   "! -32602 Invalid params: argument.value came twice",
		ref(`{"type":"ref/prompt","name":"p","name":"q"}`):                                                                                            "! -32602 Invalid params: ref.name came twice",

		prompt("many"):    list(many[:100], 150, true),
		prompt("full"):    list(many[:100], 100, false),
		prompt("none"):    list([]string{}, 0, false),
		prompt("plain"):   list([]string{}, 0, false),
		prompt("burns"):   "! -32603 disk on fire",
		prompt("refuses"): "! 3 no",
		prompt("panics"):  "! -32603 Internal error",
		prompt("nope"):    unknown,
		ref(`{"type":"ref/prompt","name":"nope"}`):                                                           unknown,
		ref(`{"type":"ref/resource","uri":"db://{table}/{+row}"}`):                                           list([]string{"r1", "r2"}, 2, false),
		ref(`{"type":"ref/resource","uri":"db://users/some/row"}`):                                           list([]string{"r1", "r2"}, 2, false),
		ref(`{"type":"ref/resource","uri":"db://fixed"}`):                                                    unknown,
		ref(`{"type":"ref/resource","uri":"nope://x"}`):                                                      unknown,
		ref(`{"type":"ref/resource","name":"db://{table}/{+row}"}`):                                          unknown,
		ref(`{"type":"ref/tool","name":"p"}`):                                                                "! -32602 Invalid params: ref.type must be ref/prompt or ref/resource",
		ref(`"p"`):                                                                                           `! -32602 Invalid params: ref must be an object, got "p"`,
		`{"ref":{"type":"ref/resource","uri":"db://{table}/{+row}"},"argument":{"name":"table","value":""}}`: list([]string{}, 0, false),
		`{"ref":{"type":"ref/resource","uri":"db://{table}/{+row}"},"argument":{"name":"+row","value":""}}`:  unknown,
		`{"ref":{"type":"ref/prompt","name":"p"}}`:                                                           "! -32602 Invalid params: argument.name and argument.value are required",
		`{"argument":{"name":"echo","value":""}}`:                                                            "! -32602 Invalid params: ref.type must be ref/prompt or ref/resource",
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo"}}`:                                "! -32602 Invalid params: argument.name and argument.value are required",
		`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"echo","value":1}}`:                      "! -32602 Invalid params: argument.value must be a string, got 1",
	} {
		for _, era := range eras {
			plus := era.plus
			if want[0] == '!' {
				plus = ""
			}
			inBubble(t, s, era.version, func(c *client) {
				c.script("> 1" + era.plus + " completion/complete " + params + "\n< 1" + plus + want)
			})
		}
	}
	// 2024-11-05 has the method, but not the capability.
	synctest.Test(t, func(t *testing.T) {
		for version, declared := range map[string]bool{"2024-11-05": false, "2025-03-26": true, "2025-11-25": true} {
			c := serve(t, s)
			c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			if got := c.recv(); strings.Contains(got[0], `"completions":{}`) != declared {
				t.Errorf("%s: %s", version, got)
			}
			c.script("> 2 completion/complete " + prompt("none") + "\n< 2" + list([]string{}, 0, false))
			c.end()
		}
	})
	// Without anything to complete there is neither.
	bare := &Server{}
	bare.AddPrompt(Prompt{Name: "p", Arguments: []Argument{{Name: "a"}}}, promptOf())
	bare.AddResource(Resource{URI: "db://{table}", Name: "t"}, texts(""))
	inBubble(t, bare, "2025-11-25", func(c *client) {
		c.script(`
			> 1+ server/discover
			< 1* {"supportedVersions":["2026-07-28"],"capabilities":{"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}}
			> 2+ completion/complete ` + prompt("a") + `
			< 2! -32601 Method not found: completion/complete
			> 3 completion/complete ` + prompt("a") + `
			< 3! -32601 Method not found: completion/complete`)
	})
}

// A completion of the modern era cannot ask: its result has no place for
// questions.
func TestCompletionDoesNotAsk(t *testing.T) {
	s := &Server{}
	s.AddPrompt(Prompt{Name: "p", Arguments: []Argument{{Name: "a", Complete: func(ctx context.Context, _ string, _ map[string]string) ([]string, error) {
		_, err := Roots(ctx)
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("got %v, want one that is ErrUnsupported", err)
		}
		return nil, err
	}}}}, promptOf())
	inBubble(t, s, "", func(c *client) {
		c.send(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"_meta":{"` + keyVersion + `":"2026-07-28","` + keyCaps + `":{"roots":{}}}}}`)
		if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"error":{"code":-32`) {
			t.Errorf("got %q, want an error", got)
		}
	})
}

// ---- what a handler knows of its request ----

func asText(r *Request) string { return fmt.Sprintf("%+q", *r) }

// RequestFrom tells every kind of handler its method, name, id, revision,
// client, capabilities and _meta.
func TestEveryHandlerKnowsItsRequest(t *testing.T) {
	if r := RequestFrom(context.Background()); r != nil {
		t.Errorf("outside: %+v", r)
	}
	s := &Server{}
	var got []*Request
	saw := func(ctx context.Context) { got = append(got, RequestFrom(context.WithoutCancel(ctx))) }
	*doer(s) = saw
	s.AddPrompt(Prompt{Name: "p", Arguments: []Argument{{Name: "a", Complete: func(ctx context.Context, _ string, _ map[string]string) ([]string, error) {
		saw(ctx)
		return nil, nil
	}}}}, func(ctx context.Context, _ map[string]string) ([]Message, error) { saw(ctx); return nil, nil })
	read := func(ctx context.Context, _ string, _ map[string]string) ([]ResourceContents, error) {
		saw(ctx)
		return nil, nil
	}
	s.AddResource(Resource{URI: "x:a", Name: "a"}, read)
	s.AddResource(Resource{URI: "x:{v}", Name: "b"}, read)
	const trace = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
	methods := []struct{ method, name, params string }{
		{"tools/call", "do", `"name":"do"`}, {"prompts/get", "p", `"name":"p"`}, {"resources/read", "x:a", `"uri":"x:a"`}, {"resources/read", "x:b", `"uri":"x:b"`},
		{"completion/complete", "p", `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`},
	}
	ids := []string{`1`, `0`, `-7`, `9007199254740993`, `2.0`, `"1"`, `""`, `"\u0061\"é"`}
	var want []*Request
	inBubble(t, s, "", func(c *client) {
		call := func(id, method, params, meta string) {
			if meta != "" {
				params += `,"_meta":` + meta
			}
			c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`)
			synctest.Wait()
		}
		for _, m := range methods {
			for _, id := range ids {
				const meta = `{"` + keyVersion + `":"2026-07-28","` + keyCaps + `":{"roots":{}},` + trace + `}`
				call(id, m.method, m.params, meta)
				want = append(want, &Request{m.method, m.name, json.RawMessage(id), "2026-07-28", "", "", json.RawMessage(`{"roots":{}}`), nil, json.RawMessage(meta)})
			}
			const meta = `{"` + keyClient + `":{"name":"mod\u0065rn","version":"2","title":"T"},"` + keyVersion + `":"2026-07-28","` + keyCaps + `":{}}`
			call("1", m.method, m.params, meta)
			want = append(want, &Request{m.method, m.name, json.RawMessage("1"), "2026-07-28", "modern", "2", json.RawMessage(`{}`), nil, json.RawMessage(meta)})
		}
		c.recv()
		c.initialize("2025-06-18", `{"sampling":{}}`)
		for _, m := range methods {
			for _, meta := range []string{"", `{` + trace + `,"progressToken":1}`} {
				call("1", m.method, m.params, meta)
				want = append(want, &Request{m.method, m.name, json.RawMessage("1"), "2025-06-18", "c", "1", json.RawMessage(`{"sampling":{}}`), nil, json.RawMessage(meta)})
			}
		}
		c.send(`{"jsonrpc":"2.0","id":2,"method":"ping","params":{"filler":"` + strings.Repeat("x", keepBuffer) + `"}}`) // so that buffers are used again
		c.recv()
	})
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			t.Fatalf("%d requests, want %d", len(got), len(want))
		}
		if len(want[i].Meta) == 0 {
			want[i].Meta = nil
		}
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("got  %s\nwant %s", asText(got[i]), asText(want[i]))
		}
	}
}

// Whatever a handler writes into its Request, the library's own is untouched.
func TestRequestFromIsACopy(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, in json.RawMessage) (string, error) {
		for range 2 {
			r := RequestFrom(ctx)
			for _, b := range []*json.RawMessage{&r.ID, &r.Meta, &r.Capabilities} {
				_ = append(*b, "xxxxxxxx"...)
				for i := range *b {
					(*b)[i] = 'y'
				}
			}
		}
		Progress(ctx, 1, 0, "")
		r := RequestFrom(ctx)
		return fmt.Sprintf("%s %s %s", r.ID, r.Capabilities, requestOf(ctx).arguments), nil
	})
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":7,` + modernMeta + `},"name":"t","arguments":{"a":1}}}`)
		c.want(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`, modernSaid(1, `1 {} {"a":1}`))
		c.end()
	})
}

// ---- logging and progress ----

// doAt is a call of the tool with a level, which is raw JSON.
func doAt(level string) string {
	return `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"do","_meta":{"` + keyLevel + `":` + level + `,"` + keyVersion + `":"2026-07-28","` + keyCaps + `":{}}}}` + "\n"
}

const done = `< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],$SRV}}` + "\n"

func logged(params string) string {
	return `< {"jsonrpc":"2.0","method":"notifications/message","params":{` + params + `}}` + "\n"
}

// inRequest gives a slog.Handler the context of a request.
type inRequest struct {
	slog.Handler
	ctx context.Context
}

func (h inRequest) Enabled(_ context.Context, l slog.Level) bool { return h.Handler.Enabled(h.ctx, l) }

func (h inRequest) Handle(_ context.Context, r slog.Record) error {
	return h.Handler.Handle(h.ctx, r)
}

func (h inRequest) WithAttrs(a []slog.Attr) slog.Handler {
	return inRequest{h.Handler.WithAttrs(a), h.ctx}
}

func (h inRequest) WithGroup(name string) slog.Handler {
	return inRequest{h.Handler.WithGroup(name), h.ctx}
}

// The messages of the protocol have no time. So what slogtest finds amiss must
// be that, and nothing else.
func TestLogHandlerIsASlogHandler(t *testing.T) {
	s := &Server{Logging: true}
	do := doer(s)
	inBubble(t, s, "", func(c *client) {
		begun, release := make(chan context.Context), make(chan struct{})
		*do = func(ctx context.Context) { begun <- ctx; <-release }
		c.talk(doAt(`"debug"`))
		err := slogtest.TestHandler(inRequest{LogHandler("x"), <-begun}, func() (messages []map[string]any) {
			for _, line := range c.recv() {
				var m struct {
					Params struct {
						Level string
						Data  any
					}
				}
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					t.Fatal(err)
				}
				data, ok := m.Params.Data.(map[string]any)
				if !ok { // without attributes it is just the message
					data = map[string]any{slog.MessageKey: m.Params.Data}
				}
				data[slog.LevelKey] = m.Params.Level
				messages = append(messages, data)
			}
			return messages
		})
		for problem := range strings.SplitSeq(fmt.Sprint(err), "\n") {
			if !strings.HasPrefix(problem, `missing key "time"`) {
				t.Error(problem)
			}
		}
		close(release)
		c.talk(done)
	})
}

// Levels of slog become those of the protocol, and only what the client asked
// for is sent.
func TestLogLevelsAreMappedAndHonoured(t *testing.T) {
	s := &Server{Logging: true}
	do := doer(s)
	of := map[slog.Level]string{-8: "debug", -4: "debug", -1: "debug", 0: "info", 1: "info", 2: "notice", 3: "notice", 4: "warning", 7: "warning",
		8: "error", 11: "error", 12: "critical", 15: "critical", 16: "alert", 19: "alert", 20: "emergency", 99: "emergency"}
	ordered := slices.Sorted(maps.Keys(of))
	*do = func(ctx context.Context) {
		l := slog.New(LogHandler(""))
		for _, level := range ordered {
			enabled := l.Enabled(ctx, level)
			before := requestOf(ctx).session.out.added
			if l.Log(ctx, level, "m"); enabled != (requestOf(ctx).session.out.added > before) {
				t.Errorf("%v: enabled: %t, but sent: %t", level, enabled, !enabled)
			}
		}
	}
	from := func(name string) (lines string) {
		for _, level := range ordered {
			if slices.Index(levels[:], of[level]) >= slices.Index(levels[:], name) {
				lines += logged(`"level":"` + of[level] + `","data":"m"`)
			}
		}
		return lines
	}
	inBubble(t, s, "", func(c *client) {
		for _, level := range levels {
			c.talk(doAt(`"`+level+`"`) + from(level) + done)
		}
		for _, bad := range []string{`"loud"`, `"INFO"`, `""`, `3`, `["info"]`, `"` + strings.Repeat("x", 1<<16) + `"`} {
			c.send(strings.TrimPrefix(strings.TrimSpace(doAt(bad)), "> "))
			if got := c.recv(); len(got) != 1 || len(got[0]) > 500 || !strings.Contains(got[0], `"code":-32602,"message":"Invalid log level: `) {
				t.Errorf("level %s: got %s", bad, got)
			}
		}
		c.script("> 1+ tools/call {\"name\":\"do\"}\n< 1+ {\"content\":[]}") // asks for none
	})
	inBubble(t, s, "2025-11-25", func(c *client) {
		const call = "> 1 tools/call {\"name\":\"do\"}\n"
		c.script(call + `< 1 {"content":[]}`)
		for _, level := range []string{"emergency", "warning", "debug"} {
			c.script(`> 2 logging/setLevel {"level":"` + level + `"}` + "\n< 2 {}\n" + call +
				strings.ReplaceAll(strings.ReplaceAll(from(level), `{"jsonrpc":"2.0","method":"notifications/message","params":`, "notifications/message "), "}}", "}") +
				`< 1 {"content":[]}`)
		}
		c.script(`
			> 3 logging/setLevel {"level":"error"}
			< 3 {}
			> 3 logging/setLevel {"level":"loud"}
			< 3! -32602 Invalid log level: loud
			> 3 logging/setLevel {"level":"Debug"}
			< 3! -32602 Invalid log level: Debug
			> 4+ logging/setLevel {"level":"debug"}
			< 4! -32601 Method not found: logging/setLevel`)
		for _, bad := range []string{`{}`, `{"level":3}`, `{"level":null}`, `{"level":["debug"]}`} {
			if got := c.ask("> 3 logging/setLevel " + bad); len(got) != 1 || !strings.Contains(got[0], `"code":-32602`) {
				t.Errorf("%s: got %s", bad, got)
			}
		}
		// None of these has changed it; and a modern request has a level of its own.
		*do = func(ctx context.Context) { slog.New(LogHandler("l")).WarnContext(ctx, "w") }
		c.script(call + `< 1 {"content":[]}`)
		c.talk(doAt(`"info"`) + logged(`"level":"warning","logger":"l","data":"w"`) + done)
	})
}

type valuer struct{ v slog.Value }

func (v valuer) LogValue() slog.Value { return v.v }

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

type ringError struct{ next *ringError }

func (e *ringError) Error() string { return "ring" }

type panicky struct{}

func (panicky) MarshalJSON() ([]byte, error) { panic("oh") }

// A message without attributes is a string, one with them an object, whatever
// its values do.
func TestLogDataIsJSON(t *testing.T) {
	s := &Server{Logging: true}
	do := doer(s)
	group := slog.Group
	for _, test := range []struct {
		name string
		log  func(ctx context.Context, l *slog.Logger)
		want string
	}{
		{"message", func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "a <b> \n") }, `"a <b> \n"`},
		{"empty", func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "") }, `""`},
		{"kinds", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "i", int64(math.MinInt64), "u", uint64(math.MaxUint64), "f", 1.5, "b", true, "s", "x", "n", nil,
				"t", time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), "d", 1500*time.Millisecond)
		}, `{"msg":"m","i":-9223372036854775808,"u":18446744073709551615,"f":1.5,"b":true,"s":"x","n":null,"t":"2026-01-02T03:04:05.000000006Z","d":1500000000}`},
		{"values", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "struct", struct {
				A int `json:"a"`
			}{1}, "list", []int{1, 2}, "map", map[string]int{"k": 1}, "raw", json.RawMessage(`{"x": 1}`), "bytes", []byte("hi"))
		}, `{"msg":"m","struct":{"a":1},"list":[1,2],"map":{"k":1},"raw":{"x":1},"bytes":"aGk="}`},
		{"errors", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "err", fmt.Errorf("outer: %w", fs.ErrNotExist), "g", slog.GroupValue(slog.Any("err", errors.New("inner"))))
		}, `{"msg":"m","err":"outer: file does not exist","g":{"err":"inner"}}`},
		{"no JSON form", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "nan", math.NaN(), "complex", 1i, "fine", 1, "list", []any{math.Inf(-1)})
		}, `{"msg":"m","nan":"!ERROR:json: unsupported value: NaN","complex":"!ERROR:json: unsupported type: complex128","fine":1,"list":"!ERROR:json: unsupported value: -Inf"}`},
		{"panics", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "fine", 1, "err", (*nilError)(nil), "json", panicky{})
		}, `{"msg":"m","fine":1,"err":"<nil>","json":"!PANIC: oh"}`},
		{"groups", func(ctx context.Context, l *slog.Logger) {
			l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").InfoContext(ctx, "m", "c", 3, group("i", "d", 4), group("", "e", 5), group("empty"))
		}, `{"msg":"m","a":1,"g":{"b":2,"h":{"c":3,"i":{"d":4},"e":5}}}`},
		{"empty groups", func(ctx context.Context, l *slog.Logger) {
			l.WithGroup("g").WithGroup("").InfoContext(ctx, "m", group("h", group("i")))
		}, `"m"`},
		{"siblings", func(ctx context.Context, l *slog.Logger) {
			base := l.With("a", 1)
			base.With("b", 2)
			base.With("c", 3).InfoContext(ctx, "m")
		}, `{"msg":"m","a":1,"c":3}`},
		{"LogValuer", func(ctx context.Context, l *slog.Logger) {
			l.With("w", valuer{slog.StringValue("with")}).InfoContext(ctx, "m",
				"v", valuer{slog.IntValue(1)}, "vv", valuer{slog.AnyValue(valuer{slog.DurationValue(time.Second)})},
				"g", valuer{slog.GroupValue(slog.Any("in", valuer{slog.BoolValue(true)}))}, "", valuer{slog.GroupValue(slog.Int("inline", 1))})
		}, `{"msg":"m","w":"with","v":1,"vv":1000000000,"g":{"in":true},"inline":1}`},
		{"nothing", func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "m", slog.Attr{}) }, `"m"`},
		{"names of slog's own", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", "level", slog.LevelWarn, "time", "now", "source", "s")
		}, `{"msg":"m","level":"WARN","time":"now","source":"s"}`},
		{"a second message", func(ctx context.Context, l *slog.Logger) {
			l.With("msg", "").InfoContext(ctx, "m", "msg", "mine", group("g", "msg", "inside"))
		}, `{"msg":"m","msg_":"","msg__":"mine","g":{"msg":"inside"}}`},
		{"a group with the name of the message", func(ctx context.Context, l *slog.Logger) {
			l.WithGroup("msg").With("a", 1).InfoContext(ctx, "m", "b", 2)
		}, `{"msg":"m","msg_":{"a":1,"b":2}}`},
		{"groups with the name of the message", func(ctx context.Context, l *slog.Logger) {
			l.InfoContext(ctx, "m", group("msg", "a", 1), "msg", valuer{slog.GroupValue(slog.Int("b", 2))}, group("", "msg", 3))
		}, `{"msg":"m","msg_":{"a":1},"msg__":{"b":2},"msg___":3}`},
		{"one name twice", func(ctx context.Context, l *slog.Logger) { l.With("a", 1).InfoContext(ctx, "m", "a", 2, "a_", 3) }, `{"msg":"m","a":1,"a_":2,"a__":3}`},
		{"a value that contains itself", func(ctx context.Context, l *slog.Logger) {
			var self any
			self = &self
			ring := &ringError{}
			ring.next = ring
			l.With("a", self).InfoContext(ctx, "m", group("g", "b", []any{self}), "ring", ring)
		}, `{"msg":"m","a":"!ERROR:the value contains itself, or is nested too deeply","g":{"b":"!ERROR:the value contains itself, or is nested too deeply"},"ring":"ring"}`},
	} {
		inBubble(t, s, "", func(c *client) {
			*do = func(ctx context.Context) { test.log(ctx, slog.New(LogHandler("lo\"g"))) }
			c.t.Log(test.name)
			c.talk(doAt(`"info"`) + logged(`"level":"info","logger":"lo\"g","data":`+test.want) + done)
		})
	}
}

// Where nobody listens, logging does nothing, and says so beforehand.
func TestLoggingToNobodyDoesNothing(t *testing.T) {
	l := slog.New(LogHandler("x"))
	silent := func(name string, ctx context.Context) {
		t.Helper()
		if l.Enabled(ctx, slog.LevelError+99) {
			t.Errorf("%s: enabled", name)
		}
		l.ErrorContext(ctx, name)
		if err := l.Handler().Handle(ctx, slog.Record{Level: slog.LevelError, Message: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	silent("no request", context.Background())
	off := &Server{}
	do := doer(off)
	*do = func(ctx context.Context) { silent("off", ctx) }
	inBubble(t, off, "2025-11-25", func(c *client) {
		c.talk(doAt(`"debug"`) + done)
		c.script(`
			> 1 tools/call {"name":"do"}
			< 1 {"content":[]}
			> 2 logging/setLevel {"level":"debug"}
			< 2! -32601 Method not found: logging/setLevel
			> 3+ server/discover
			< 3* {"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}`)
	})
	on := &Server{Logging: true}
	do = doer(on)
	inBubble(t, on, "", func(c *client) {
		c.script(`
			> 1+ server/discover
			< 1* {"supportedVersions":["2026-07-28"],"capabilities":{"logging":{},"tools":{"listChanged":true}}}`)
		var late context.Context
		*do = func(ctx context.Context) { late = context.WithoutCancel(ctx) }
		c.talk(doAt(`"debug"`) + done)
		l.ErrorContext(late, "after its end")
		*do = func(ctx context.Context) {
			<-ctx.Done()
			l.ErrorContext(context.WithoutCancel(ctx), "cancelled")
		}
		c.talk(doAt(`"debug"`) + `> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		*do = func(ctx context.Context) { l.ErrorContext(late, "of another that had the same id") }
		c.talk(doAt(`"debug"`) + done)
	})
}

// Progress that does not rise, is no number, has no token or comes late is not
// sent.
func TestProgressOnlyRises(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		var kept context.Context
		add(&s.Server, "steps", func(ctx context.Context) (string, error) {
			for _, done := range []float64{-1, 0, 0, math.NaN(), math.Inf(1), math.Inf(-1), 0.5, 0.25, 2, 1e21} {
				Progress(ctx, done, math.NaN(), "")
			}
			kept = context.WithoutCancel(ctx)
			return "done", nil
		})
		c := serveWire(t, &s.Server)
		for _, token := range []string{`7`, `"7"`, `"\u0041 \\"`, `9007199254740993`, `-0`, `7.0`, `""`} {
			c.writes = nil
			c.send(modernCall("1", "steps", `"progressToken":`+token))
			c.recv()
			want := []string{}
			for _, done := range []string{"-1", "0", "0.5", "2", "1e+21"} {
				want = append(want, progressLine(token, done)+"\n") // each in a write of its own, the token verbatim
			}
			if want = append(want, modernSaid("1", "done")+"\n"); !slices.Equal(c.writes, want) {
				t.Errorf("writes: %q\nwant %q", c.writes, want)
			}
		}
		Progress(kept, 1e22, 0, "too late")
		c.send(modernCall("1", "steps")) // no token, no line
		c.want(modernSaid("1", "done"))
		Progress(kept, 1e22, 0, "too late")
		Progress(context.Background(), 1, 0, "not a handler's")
		for _, token := range []string{`1.5`, `true`, `{}`} {
			c.send(modernCall("1", "steps", `"progressToken":`+token))
			if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], "-32602") {
				t.Errorf("token %s: %q", token, got)
			}
		}
		c.end()
	})
	bubble(t, func(t *testing.T, s *stage) { // concurrent callers, some of whom outlive the handler
		add(&s.Server, "crowd", func(ctx context.Context) (string, error) {
			var first sync.WaitGroup
			for i := range 40 {
				f := func() {
					for n := range 20 {
						Progress(ctx, float64(20*n+i), 0, "")
					}
				}
				if i%2 == 0 {
					first.Go(f)
				} else {
					go f()
				}
			}
			first.Wait()
			return "done", nil
		})
		c := serve(t, &s.Server)
		var wg sync.WaitGroup
		for id := range 5 {
			wg.Go(func() { c.send(modernCall(strconv.Itoa(id), "crowd", `"progressToken":`+strconv.Itoa(id))) })
		}
		wg.Wait()
		last, ended := [5]float64{}, [5]bool{}
		form := regexp.MustCompile(`"progressToken":(\d),"progress":(\d+)`)
		for _, line := range c.recv() {
			m := form.FindStringSubmatch(line)
			if m == nil {
				ended[line[len(`{"jsonrpc":"2.0","id":`)]-'0'] = true
				continue
			}
			done, _ := strconv.ParseFloat(m[2], 64)
			if id := m[1][0] - '0'; ended[id] || done <= last[id] && done > 0 {
				t.Errorf("%s after %v, answered: %v", line, last[id], ended[id])
			} else {
				last[id] = done
			}
		}
		if ended != [5]bool{true, true, true, true, true} {
			t.Errorf("answered: %v", ended)
		}
		c.end()
	})
}

// ---- asking ----

const everyCap = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`

// An askFunc is a handler that asks; see asker.
type askFunc func(context.Context) (string, error)

// asker returns a server whose tools "ask" and "other", prompts of these
// names, resources ask:a and ask:b, and completion of a prompt all do ask.
func asker(ask askFunc) *Server {
	s := &Server{}
	for _, name := range []string{"ask", "other"} {
		AddTool(s, Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}, func(ctx context.Context, _ json.RawMessage) (string, error) {
			return ask(ctx)
		})
		complete := func(ctx context.Context, _ string, _ map[string]string) ([]string, error) {
			text, err := ask(ctx)
			return []string{text}, err
		}
		s.AddPrompt(Prompt{Name: name, Arguments: []Argument{{Name: "a", Complete: complete}}}, func(ctx context.Context, _ map[string]string) ([]Message, error) {
			text, err := ask(ctx)
			return []Message{{Content: Text(text)}}, err
		})
		s.AddResource(Resource{URI: "ask:" + name[:1], Name: name}, func(ctx context.Context, _ string, _ map[string]string) ([]ResourceContents, error) {
			text, err := ask(ctx)
			return []ResourceContents{{Text: text}}, err
		})
	}
	return s
}

// told makes a text of what a verb returned, but leaves alone the errors that
// a handler is to return.
func told(v any, err error) (string, error) {
	var cancelled *CancelledError
	switch {
	case protocolError(err) != nil, errors.Is(err, ErrInputRequired), errors.Is(err, errors.ErrUnsupported):
		return "", err
	case errors.Is(err, ErrDeclined):
		return "declined", nil
	case errors.Is(err, ErrDismissed):
		return "dismissed", nil
	case err == ErrClosed:
		return "closed", nil
	case errors.As(err, &cancelled):
		return "cancelled " + cancelled.Reason, nil
	case err != nil:
		return "error: " + err.Error(), nil
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.RawMessage:
		return string(v), nil
	case *SampleResult:
		text := fmt.Sprintf("%s/%s/%s", v.Role, v.Model, v.StopReason)
		for _, c := range v.Content {
			text += fmt.Sprintf(" %s:%s%s%s", c.Type, c.Text, c.MIMEType, c.Data)
		}
		return text, nil
	}
	return fmt.Sprintf("%+v", v), nil
}

// confirm asks a question about what, which confirmParams has as it is sent.
func confirm(ctx context.Context, what string) (bool, error) {
	form, err := Elicit[struct {
		OK bool `json:"ok"`
	}](ctx, "Sure of "+what+"?")
	return form.OK, err
}

func confirmParams(what string) string {
	return strings.Replace(confirmAsk, "of k?", "of "+strings.Trim(strconv.Quote(what), `"`)+"?", 1)
}

const (
	confirmForm = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`
	confirmAsk  = `{"mode":"form","message":"Sure of k?","requestedSchema":` + confirmForm + `}`
	confirmYes  = `{"action":"accept","content":{"ok":true}}`
)

func askOnce(ctx context.Context) (string, error) { return told(confirm(ctx, "k")) }

func callTheAsker(id any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":"ask"}}`, id)
}

// modernRequest returns the line of a request of the modern era; more are
// members of its params, each with a comma before it.
func modernRequest(id any, method, params, caps string, more ...string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":{%s%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`,
		id, method, params, strings.Join(more, ""), caps)
}

func questionLine(id any, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":%s}`, id, method, params)
}

func answer(id any, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, id, result)
}

func withdrawn(id any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%v,"reason":"no longer needed"}}`, id)
}

const badState = "Invalid or expired requestState"

// round checks that the one line that came responds to id with these questions and
// with nothing more, and returns the requestState. The keys of the questions are the
// server's own: the test names them, as in "$k", and send puts the server's in.
func (c *client) round(id any, inputRequests string) string {
	c.t.Helper()
	var m struct {
		Result struct {
			RequestState  string
			InputRequests map[string]json.RawMessage
		}
	}
	var want map[string]json.RawMessage
	got := c.recv()
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &m) != nil || m.Result.RequestState == "" {
		c.t.Fatalf("no questions: %q", got)
	}
	if err := json.Unmarshal([]byte(inputRequests), &want); err != nil {
		c.t.Fatal(err)
	}
	for name, question := range want {
		for key, raw := range m.Result.InputRequests {
			if sameJSON(c.t, string(raw), string(question)) {
				c.keys = append([]string{strconv.Quote(name), strconv.Quote(key)}, c.keys...) // the newest is found first
				inputRequests = strings.Replace(inputRequests, strconv.Quote(name), strconv.Quote(key), 1)
			}
			if len(key) > 33 {
				c.t.Errorf("key %q", key)
			}
		}
	}
	expected := fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"resultType":"input_required","inputRequests":%s,"requestState":%q,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"1.0.0"}}}}`,
		id, inputRequests, m.Result.RequestState)
	const each = `{"method":` // a duplicate key would be hidden otherwise
	if !sameJSON(c.t, got[0], expected) || strings.Count(got[0], each) != strings.Count(expected, each) {
		c.t.Errorf("got  %s\nwant %s", got[0], expected)
	}
	return m.Result.RequestState
}

// onlyQuestion returns the key of the only question in the only line, and the requestState,
// both as JSON.
func onlyQuestion(t *testing.T, lines []string) (key, state string) {
	t.Helper()
	var m struct {
		Result struct {
			RequestState  string
			InputRequests map[string]any
		}
	}
	if len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &m) != nil || len(m.Result.InputRequests) != 1 {
		t.Fatalf("got %q, want one question", lines)
	}
	for key = range m.Result.InputRequests {
	}
	return strconv.Quote(key), strconv.Quote(m.Result.RequestState)
}

func formOf[T any](rev revision) string {
	b, err := mustDerive(reflect.TypeFor[T](), "mcp: Elicit", reading).appendForm(nil, rev)
	if errors.Is(err, errors.ErrUnsupported) {
		return "unsupported"
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(b), `{"type":"object","properties":`), "}")
}

// The schema of a form has what the revision allows of it.
func TestFormsAreWhatTheRevisionAllows(t *testing.T) {
	for _, test := range []struct {
		name             string
		form             func(revision) string
		want, in2025June string // the latter where it differs
	}{
		{"nothing", formOf[struct{}], `{}`, ""},
		{"string", formOf[struct {
			A string `json:"a" jsonschema:"who" minLength:"1" maxLength:"9"`
		}], `{"a":{"type":"string","description":"who","minLength":1,"maxLength":9}},"required":["a"]`, ""},
		{"formats", formOf[struct {
			A string    `format:"email"`
			B string    `format:"uri"`
			C string    `format:"date"`
			D time.Time `json:"D,omitzero"`
		}], `{"A":{"type":"string","format":"email"},"B":{"type":"string","format":"uri"},"C":{"type":"string","format":"date"},"D":{"type":"string","format":"date-time"}},"required":["A","B","C"]`, ""},
		{"numbers", formOf[struct {
			A int      `minimum:"-1" maximum:"9"`
			B *float64 `minimum:"0.5"`
			C uint8    `json:",omitempty"`
		}], `{"A":{"type":"integer","minimum":-1,"maximum":9},"B":{"type":"number","minimum":0.5},"C":{"type":"integer","minimum":0,"maximum":255}},"required":["A"]`, ""},
		{"boolean", formOf[struct {
			A bool
			B bool `default:"true"`
		}], `{"A":{"type":"boolean"},"B":{"type":"boolean","default":true}},"required":["A"]`, ""},
		{"choice", formOf[struct {
			A string `enum:"x,y"`
		}], `{"A":{"type":"string","enum":["x","y"]}},"required":["A"]`, ""},
		{"choice with titles", formOf[struct {
			A string `enum:"x,y" titles:"X,\"Y\""`
		}], `{"A":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y","title":"\"Y\""}]}},"required":["A"]`,
			`{"A":{"type":"string","enum":["x","y"],"enumNames":["X","\"Y\""]}},"required":["A"]`},
		{"several", formOf[struct {
			A []string `enum:"x,y" minLength:"1" maxLength:"2" jsonschema:"which"`
		}], `{"A":{"type":"array","description":"which","minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y"]}}},"required":["A"]`, "unsupported"},
		{"several with titles", formOf[struct {
			A []string `enum:"x,y" titles:"X,Y" default:"[\"x\"]"`
		}], `{"A":{"type":"array","default":["x"],"items":{"anyOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]}}}`, "unsupported"},
		{"defaults", formOf[struct {
			A string  `default:"\"x\""`
			B int     `default:"7"`
			C float64 `default:"0.5"`
			D string  `enum:"x,y" default:"y"`
		}], `{"A":{"type":"string","default":"\"x\""},"B":{"type":"integer","default":7},"C":{"type":"number","default":0.5},"D":{"type":"string","default":"y","enum":["x","y"]}}`,
			`{"A":{"type":"string"},"B":{"type":"integer"},"C":{"type":"number"},"D":{"type":"string","enum":["x","y"]}}`},
	} {
		for rev := rev2025_06_18; rev <= newest; rev++ {
			want := test.want
			if rev == rev2025_06_18 && test.in2025June != "" {
				want = test.in2025June
			}
			if got := test.form(rev); got != want {
				t.Errorf("%s in %v:\ngot  %s\nwant %s", test.name, rev, got, want)
			}
		}
	}
}

func elicits[T any]() func() {
	return func() { Elicit[T](context.Background(), "m") }
}

// A type that no form can show panics, naming the field.
func TestFormsThatCannotBeShownPanic(t *testing.T) {
	for _, test := range []struct {
		elicit func()
		names  string // what the panic says
	}{
		{elicits[struct{ Deep struct{ B int } }](), "Deep"},
		{elicits[struct{ Bytes []byte }](), "Bytes"},
		{elicits[struct{ Map map[string]string }](), "Map"},
		{elicits[struct{ Free []string }](), "Free"},
		{elicits[struct {
			Nums []int
		}](), "Nums"},
		{elicits[struct{ Any any }](), "Any"},
		{elicits[struct {
			Short string `enum:"x,y" titles:"X"`
		}](), "Short"},
		{elicits[struct {
			Odd string `format:"phone"`
		}](), "Odd"},
		{elicits[struct {
			Preset int `default:"x"`
		}](), "Preset"},
		{func() { // in a revision without choices of several, too
			formOf[struct {
				A    []string `enum:"x,y"`
				Deep struct{ B int }
			}](rev2025_06_18)
		}, "Deep"},
		{elicits[string](), "struct"},
		{elicits[[]string](), "struct"},
		{elicits[map[string]string](), "struct"},
		{elicits[time.Time](), "struct"},
		{elicits[struct{ Fine string }](), ""},
	} {
		func() {
			defer func() {
				r := recover()
				if (r != nil) != (test.names != "") || !strings.Contains(fmt.Sprint(r), test.names) {
					t.Errorf("want a panic that says %q, got %v", test.names, r)
				}
			}()
			test.elicit()
		}()
	}
}

// An asked is a question, as it is on the wire in both eras, and its answer.
type asked struct{ key, method, params, answer string }

type trip struct {
	City  string   `json:"city" minLength:"2"`
	Days  int      `json:"days,omitempty" minimum:"1"`
	Class string   `json:"class" enum:"a,b" default:"a"`
	Extra []string `json:"extra,omitempty" enum:"x,y"`
}

const tripAsk = `{"mode":"form","message":"Where \"to\"?\n","requestedSchema":{"type":"object","properties":{"city":{"type":"string","minLength":2},` +

	`"days":{"type":"integer","minimum":1},"class":{"type":"string","default":"a","enum":["a","b"]},"extra":{"type":"array","items":{"type":"string","enum":["x","y"]}}},"required":["city"]}}`

func askTrip(ctx context.Context) (string, error) {
	return told(Elicit[trip](ctx, "Where \"to\"?\n"))
}

func askByHand(ctx context.Context) (string, error) {
	return told(ElicitSchema(ctx, "?", json.RawMessage("{ \"type\":\"object\",\n\"properties\" : {} }")))
}

func askURL(ctx context.Context) (string, error) {
	return told("agreed", ElicitURL(ctx, "Log in", "https://x/?a=1&b=2"))
}

func askRoots(ctx context.Context) (string, error) { return told(Roots(ctx)) }

func askModel(req SampleRequest) askFunc {
	return func(ctx context.Context) (string, error) { return told(Sample(ctx, req)) }
}

func sampleOf(c ...Content) SampleRequest {
	return SampleRequest{MaxTokens: 9, Messages: []SampleMessage{{Content: c}}}
}

const (
	byHandAsk = `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}`
	urlAsk    = `{"mode":"url","message":"Log in","url":"https://x/?a=1&b=2"}`
	hiAsk     = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9}`
	hiAnswer  = `{"role":"assistant","content":{"type":"text","text":"yo"},"model":"m","stopReason":"endTurn","_meta":{"x":1},"more":[]}`
)

// One handler, both eras: what is asked, what is answered, what comes of it.
func TestAskingIsOneStraightLineInBothEras(t *testing.T) {
	const create, sample = "elicitation/create", "sampling/createMessage"
	temperature := 0.5
	one := func(ask askFunc, method, params, answer, want string) func() (askFunc, [][]asked, string) {
		return func() (askFunc, [][]asked, string) {
			return ask, [][]asked{{{"k", method, params, answer}}}, want
		}
	}
	form := func(answer, want string) func() (askFunc, [][]asked, string) {
		return one(askTrip, create, tripAsk, answer, want)
	}
	model := func(req SampleRequest, params, answer, want string) func() (askFunc, [][]asked, string) {
		return one(askModel(req), sample, params, answer, want)
	}
	about := func(what string) asked { return asked{what, create, confirmParams(what), confirmYes} }

	for name, test := range map[string]func() (askFunc, [][]asked, string){
		"no question": func() (askFunc, [][]asked, string) {
			return func(context.Context) (string, error) { return "x", nil }, nil, "x"
		},
		"accept":           form(`{"action":"accept","content":{"city":"Rome","days":2,"class":"b","extra":["y","x"]}}`, "{City:Rome Days:2 Class:b Extra:[y x]}"),
		"member unknown":   form(`{"action":"accept","content":{"city":"Rome","days":2,"class":"b","extra":["y","x"],"at":"noon"}}`, "{City:Rome Days:2 Class:b Extra:[y x]}"), // as the form allows
		"number as text":   form(`{"action":"accept","content":{"city":"Rome","days":"2"}}`, "{City:Rome Days:2 Class:a Extra:[]}"),
		"default":          form(`{"action":"accept","content":{"city":"Rome","days":null}}`, "{City:Rome Days:0 Class:a Extra:[]}"),
		"decline":          form(`{"action":"decline","content":{}}`, "declined"),
		"cancel":           form(`{"action":"cancel"}`, "dismissed"),
		"form too short":   form(`{"action":"accept","content":{"city":"R","days":0,"extra":["z"]}}`, `error: mcp: the user's answer: city must have at least 2 characters, got 1; days must be at least 1, got 0; extra[0] must be one of x, y, got "z"`),
		"form of no type":  form(`{"action":"accept","content":{"city":5}}`, "error: mcp: the user's answer: city must be a string, got 5"),
		"no content":       form(`{"action":"accept"}`, "error: mcp: the user's answer: city is required"),
		"content null":     form(`{"action":"accept","content":null}`, "error: mcp: the user's answer: city is required"),
		"content no form":  form(`{"action":"accept","content":"Rome"}`, "error: mcp: elicitation/create: the client's answer is invalid: "+`content must be an object, got "Rome"`),
		"no such action":   form(`{"action":"Accept"}`, "error: mcp: elicitation/create: the client's answer is invalid: "+`action must be accept, decline or cancel, got "Accept"`),
		"action no string": form(`{"action":5}`, "error: mcp: elicitation/create: the client's answer is invalid: action must be a string, got 5"),
		"two actions":      form(`{"action":"decline","action":"cancel"}`, "error: mcp: elicitation/create: the client's answer is invalid: action came twice"),
		"no action":        form(`{}`, "error: mcp: elicitation/create: the client's answer is invalid: "+`action must be accept, decline or cancel, got ""`),

		"by hand":            one(askByHand, create, byHandAsk, `{"action":"accept","content":{"x":[1]}}`, `{"x":[1]}`),
		"by hand declined":   one(askByHand, create, byHandAsk, `{"action":"decline"}`, "declined"),
		"by hand no content": one(askByHand, create, byHandAsk, `{"action":"accept"}`, "{}"),
		"url":                one(askURL, create, urlAsk, `{"action":"accept"}`, "agreed"),
		"url declined":       one(askURL, create, urlAsk, `{"action":"decline"}`, "declined"),
		"url dismissed":      one(askURL, create, urlAsk, `{"action":"cancel"}`, "dismissed"),
		"bad schema": func() (askFunc, [][]asked, string) {
			return func(ctx context.Context) (string, error) {
				return told(ElicitSchema(ctx, "?", json.RawMessage(`{"type":`)))
			}, nil, "error: mcp: ElicitSchema: not valid JSON: unexpected end of JSON input"
		},

		"roots":         one(askRoots, "roots/list", `{}`, `{"roots":[{"uri":"file:///a","name":"A","_meta":{}},{"uri":"file:///b"}],"_meta":{}}`, "[{URI:file:///a Name:A} {URI:file:///b Name:}]"),
		"no root":       one(askRoots, "roots/list", `{}`, `{"roots":[]}`, "[]"),
		"roots missing": one(askRoots, "roots/list", `{}`, `{}`, "error: mcp: roots/list: the client's answer is invalid: roots is required"),
		"roots no list": one(askRoots, "roots/list", `{}`, `{"roots":{}}`, "error: mcp: roots/list: the client's answer is invalid: roots must be an array, got {}"),

		"text":  model(sampleOf(Text("hi")), hiAsk, hiAnswer, "assistant/m/endTurn text:yo"),
		"image": model(sampleOf(Image([]byte("abc"), "image/png")), `{"messages":[{"role":"user","content":{"type":"image","data":"YWJj","mimeType":"image/png"}}],"maxTokens":9}`, `{"role":"assistant","content":{"type":"image","data":"YWJj","mimeType":"image/gif"},"model":"m"}`, "assistant/m/ image:image/gifabc"),
		"audio": model(sampleOf(Audio([]byte("abc"), "audio/wav")), `{"messages":[{"role":"user","content":{"type":"audio","data":"YWJj","mimeType":"audio/wav"}}],"maxTokens":9}`, `{"role":"assistant","content":[{"type":"audio","data":"YWJj","mimeType":"audio/ogg"},{"type":"text","text":"!"}],"model":"m"}`, "assistant/m/ audio:audio/oggabc text:!"),
		"several blocks": model(sampleOf(Text("a"), Text("b")), `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"maxTokens":9}`,
			`{"role":"assistant","content":[],"model":"m"}`, "assistant/m/"),
		"everything": model(SampleRequest{Messages: []SampleMessage{{Content: []Content{Text("hi")}}, {Role: "assistant", Content: []Content{Text("yo")}}, {Content: []Content{Text("so")}}},
			MaxTokens: 9, SystemPrompt: "be <brief>", Temperature: &temperature, StopSequences: []string{"\n", "."}, IncludeContext: "thisServer",
			ModelPreferences: json.RawMessage(`{"hints":[{"name":"x"}], "costPriority":0.3}`)},
			`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}},{"role":"assistant","content":{"type":"text","text":"yo"}},{"role":"user","content":{"type":"text","text":"so"}}],"maxTokens":9,"systemPrompt":"be <brief>","temperature":0.5,"stopSequences":["\n","."],"includeContext":"thisServer","modelPreferences":{"hints":[{"name":"x"}],"costPriority":0.3}}`,
			hiAnswer, "assistant/m/endTurn text:yo"),
		"model says nothing": model(sampleOf(Text("hi")), hiAsk, `{}`, "error: mcp: sampling/createMessage: the client's answer is invalid: content is required"),
		"model says null":    model(sampleOf(Text("hi")), hiAsk, `{"role":"assistant","content":null,"model":"m"}`, "error: mcp: sampling/createMessage: the client's answer is invalid: content is required"),
		"model says 5":       model(sampleOf(Text("hi")), hiAsk, `{"role":"assistant","content":[5],"model":"m"}`, "error: mcp: sampling/createMessage: the client's answer is invalid: content: [0] must be an object, got 5"),
		"model is no string": model(sampleOf(Text("hi")), hiAsk, `{"role":"assistant","content":{"type":"text","text":"x"},"model":5}`, "error: mcp: sampling/createMessage: the client's answer is invalid: model must be a string, got 5"),
		"model has no bytes": model(sampleOf(Text("hi")), hiAsk, `{"role":"assistant","content":{"type":"image","data":"?"},"model":"m"}`, "error: mcp: sampling/createMessage: the client's answer is invalid: content: [0].data must be base64"),
		"bad preferences": func() (askFunc, [][]asked, string) {
			return askModel(SampleRequest{ModelPreferences: json.RawMessage(`{`)}), nil, `error: mcp: Sample: ModelPreferences is not valid JSON`
		},
		"bad content": func() (askFunc, [][]asked, string) {
			return askModel(sampleOf(Content{Type: "tool_use"})), nil, `error: mcp: Sample: content of type "tool_use" lacks what belongs to it`
		},
		"content that is none of a model's": func() (askFunc, [][]asked, string) {
			return askModel(sampleOf(ResourceLink(Resource{URI: "a:b", Name: "b"}))), nil, `error: mcp: Sample: content of type "resource_link" cannot be sent to a model`
		},

		"three rounds": func() (askFunc, [][]asked, string) {
			return func(ctx context.Context) (string, error) {
				n := 0
				for _, what := range []string{"a", "b", "c"} {
					ok, err := confirm(ctx, what)
					if err != nil && !errors.Is(err, ErrDeclined) {
						return "", err
					}
					if n *= 2; ok {
						n++
					}
				}
				return strconv.Itoa(n), nil
			}, [][]asked{{about("a")}, {{"b", create, confirmParams("b"), `{"action":"decline"}`}}, {about("c")}}, "5"
		},
		"several at once": func() (askFunc, [][]asked, string) {
			return func(ctx context.Context) (string, error) {
				ok, err := confirm(ctx, "a <>")
				roots, err2 := Roots(ctx)
				said, err3 := Sample(ctx, sampleOf(Text("hi")))
				if err := errors.Join(err, err2, err3); err != nil {
					return "", fmt.Errorf("not yet: %w", err)
				}
				last, err := confirm(ctx, "last")
				return fmt.Sprintf("%v %v %v %v", ok, len(roots), said.Model, last), err
			}, [][]asked{{about("a <>"), {"b", "roots/list", `{}`, `{"roots":[]}`}, {"", sample, hiAsk, hiAnswer}}, {about("last")}}, "true 0 m true"
		},
	} {
		t.Run(name, func(t *testing.T) {
			ask, rounds, want := test()
			mint := regexp.MustCompile(`,"elicitationId":"[0-9a-z]{8,}"`)
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, asker(ask))
				c.initialize("2025-11-25", everyCap)
				c.send(callTheAsker("1"))
				for i, q := range slices.Concat(rounds...) {
					got := c.recv()
					if len(got) != 1 {
						t.Fatalf("question %d: got %q", i, got)
					}
					url := strings.Contains(q.params, `"mode":"url"`)
					if bare := mint.ReplaceAllString(got[0], ""); (bare != got[0]) != url || !sameJSON(t, bare, questionLine(i+1, q.method, q.params)) {
						t.Errorf("got  %s\nwant %s", got[0], questionLine(i+1, q.method, q.params))
					}
					c.send(answer(i+1, q.answer))
				}
				c.want(said(1, want))
				c.end()
			})
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, asker(ask))
				more := ""
				for i, round := range rounds {
					c.send(modernRequest(i, "tools/call", `"name":"ask","arguments":{}`, everyCap, more))
					inputs, answers := "", ""
					for _, q := range round {
						inputs += fmt.Sprintf(`,%q:{"method":%q,"params":%s}`, "$"+q.key, q.method, q.params)
						answers += fmt.Sprintf(`,%q:%s`, "$"+q.key, q.answer)
					}
					state := c.round(i, "{"+inputs[1:]+"}")
					more = fmt.Sprintf(`,"inputResponses":{%s},"requestState":%q`, answers[1:], state)
				}
				c.send(modernRequest(`"last"`, "tools/call", `"name":"ask","arguments":{}`, everyCap, more))
				c.want(modernSaid(`"last"`, want))
				c.end()
			})
		})
	}
}

// What a client has not declared is not asked for; what it is asked has the
// form of its revision.
func TestOnlyWhatTheClientDeclaredIsAsked(t *testing.T) {
	const (
		create, sample = "elicitation/create", "sampling/createMessage"
		formJune       = `{"message":"Sure of k?","requestedSchema":` + confirmForm + `}`
		noise          = `[audio, audio/wav, 3 bytes]`
	)
	with := func(f func(*SampleRequest)) askFunc {
		r := sampleOf(Text("hi"))
		f(&r)
		return askModel(r)
	}
	context_ := with(func(r *SampleRequest) { r.IncludeContext = "allServers" })
	two := askModel(sampleOf(Text("a"), Text("b")))
	bodyOf := func(more string) string { return strings.TrimSuffix(hiAsk, "}") + more + "}" }

	for i, test := range []struct {
		version, caps string
		ask           askFunc
		method        string // "" if it is not asked
		params        string // what is asked, or what the error says is missing; "" is any
	}{
		{"2024-11-05", `{"elicitation":{}}`, askOnce, "", ""},
		{"2025-03-26", `{"elicitation":{"form":{},"url":{}}}`, askOnce, "", ""},
		{"2025-03-26", `{"elicitation":{"url":{}}}`, askURL, "", ""},
		{"2025-06-18", `{"elicitation":{}}`, askOnce, create, formJune},
		{"2025-06-18", `{"elicitation":{"url":{}}}`, askOnce, create, formJune},
		{"2025-06-18", `{"elicitation":{"form":{},"url":{}}}`, askURL, "", ""},
		{"2025-06-18", `{"elicitation":{}}`, askTrip, "", ""}, // has a choice of several
		{"2025-06-18", `{}`, askOnce, "", ""},
		{"2025-11-25", `{}`, askOnce, "", ""},
		{"2025-11-25", `{"elicitation":true}`, askOnce, "", ""},
		{"2025-11-25", `{"elicitation":{}}`, askOnce, create, confirmAsk},
		{"2025-11-25", `{"elicitation":{"form":{}}}`, askOnce, create, confirmAsk},
		{"2025-11-25", `{"elicitation":{"url":{}}}`, askOnce, "", ""},
		{"2025-11-25", `{"elicitation":{}}`, askURL, "", ""},
		{"2025-11-25", `{"elicitation":{"form":{}}}`, askURL, "", ""},
		{"2025-11-25", `{"elicitation":{"url":{}}}`, askURL, create, ""},
		{"2026-07-28", `{}`, askOnce, "", `{"elicitation":{}}`},
		{"2026-07-28", `{"elicitation":{}}`, askOnce, create, confirmAsk},
		{"2026-07-28", `{"elicitation":{"url":{}}}`, askOnce, "", `{"elicitation":{"form":{}}}`},
		{"2026-07-28", `{"elicitation":{"form":{}}}`, askURL, "", `{"elicitation":{"url":{}}}`},
		{"2026-07-28", `{"elicitation":{"url":{}}}`, askURL, create, urlAsk},

		{"2024-11-05", `{}`, askRoots, "", ""},
		{"2024-11-05", `{"roots":{"listChanged":true}}`, askRoots, "roots/list", `{}`},
		{"2026-07-28", `{}`, askRoots, "", `{"roots":{}}`},
		{"2026-07-28", `{"roots":{}}`, askRoots, "roots/list", `{}`},

		{"2024-11-05", `{"roots":{}}`, askModel(sampleOf(Text("hi"))), "", ""},
		{"2024-11-05", `{"sampling":{}}`, askModel(sampleOf(Text("hi"))), sample, hiAsk},
		{"2024-11-05", `{"sampling":{}}`, askModel(sampleOf(Audio([]byte("abc"), "audio/wav"))), sample, strings.Replace(hiAsk, "hi", noise, 1)},
		{"2024-11-05", `{"sampling":{}}`, context_, sample, bodyOf(`,"includeContext":"allServers"`)},
		{"2025-06-18", `{"sampling":{"tools":{}}}`, two, "", ""},
		{"2025-11-25", `{"sampling":{}}`, two, sample, ""},
		{"2025-11-25", `{"sampling":{}}`, context_, "", ""},
		{"2025-11-25", `{"sampling":{}}`, with(func(r *SampleRequest) { r.IncludeContext = "none" }), sample, bodyOf(`,"includeContext":"none"`)},
		{"2025-11-25", `{"sampling":{"context":{}}}`, context_, sample, bodyOf(`,"includeContext":"allServers"`)},
		{"2026-07-28", `{}`, askModel(sampleOf(Text("hi"))), "", `{"sampling":{}}`},
		{"2026-07-28", `{"sampling":{}}`, context_, "", `{"sampling":{"context":{}}}`},
	} {
		t.Run(fmt.Sprint(i, test.version, test.caps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got error
				c := serve(t, asker(func(ctx context.Context) (string, error) {
					text, err := test.ask(ctx)
					got = err
					return text, err
				}))
				eraLine := modernRequest(1, "tools/call", `"name":"ask"`, test.caps)
				if test.version != "2026-07-28" {
					c.initialize(test.version, test.caps)
					eraLine = callTheAsker(1)
				}
				c.send(eraLine)
				lines := c.recv()
				if len(lines) != 1 {
					t.Fatalf("got %q", lines)
				}
				var m struct {
					Method string
					Params json.RawMessage
					Error  struct {
						Code int
						Data struct{ RequiredCapabilities json.RawMessage }
					}
					Result struct {
						IsError       bool
						InputRequests map[string]struct {
							Method string
							Params json.RawMessage
						}
					}
				}
				json.Unmarshal([]byte(lines[0]), &m)
				params := m.Params
				for _, question := range m.Result.InputRequests {
					m.Method, params = question.Method, question.Params
				}
				switch {
				case m.Method != "":
				case test.method == "" && (!errors.Is(got, errors.ErrUnsupported) || m.Result.IsError == (m.Error.Code == codeCapability)):
					t.Errorf("want that to be unsupported, got %v: %s", got, lines[0])
				case m.Error.Code != 0:
					params = m.Error.Data.RequiredCapabilities
				}
				if m.Method != test.method || test.params != "" && !sameJSON(t, string(params), test.params) {
					t.Errorf("got  %s\nwant %s %s", lines[0], test.method, test.params)
				}
				if m.Method != "" && test.version != "2026-07-28" {
					c.send(`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`)
					c.want(said(1, "error: mcp: the client responded with an error: no (-1)"))
				}
				c.end()
			})
		})
	}
}

// Handlers of all kinds may ask, but a completion of the modern era has no way
// to; and codes of one era stay there.
func TestHandlersOfAllKindsMayAsk(t *testing.T) {
	const complete = `"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"a","value":""}`
	const asks = `{"$k":{"method":"elicitation/create","params":` + confirmAsk + `}}`
	results := map[string]string{
		"tools/call":          `"content":[{"type":"text","text":"true"}]`,
		"prompts/get":         `"messages":[{"role":"user","content":{"type":"text","text":"true"}}]`,
		"resources/read":      `"contents":[{"uri":"ask:a","text":"true"}]`,
		"completion/complete": `"completion":{"values":["true"],"total":1,"hasMore":false}`,
	}
	for method, params := range map[string]string{"tools/call": `"name":"ask"`, "prompts/get": `"name":"ask"`, "resources/read": `"uri":"ask:a"`, "completion/complete": complete} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, asker(askOnce))
				c.send(modernRequest(1, method, params, everyCap))
				if method == "completion/complete" {
					c.want(wrong(1, codeInternal, "mcp: completion/complete cannot ask the client: unsupported operation"))
					c.send(modernRequest(2, method, params, everyCap, `,"inputResponses":{"$k":`+confirmYes+`},"requestState":"x"`))
					c.want(wrong(2, codeInternal, "mcp: completion/complete cannot ask the client: unsupported operation"))
				} else {
					state := c.round(1, asks)
					c.send(modernRequest(2, method, params, everyCap, `,"inputResponses":{"$k":`+confirmYes+`},"requestState":"`+state+`"`))
					cache := ""
					if method == "resources/read" {
						cache = `"ttlMs":0,"cacheScope":"private",`
					}
					c.talk(`< {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",` + results[method] + `,` + cache + `$SRV}}`)
					c.send(modernRequest(3, method, params, `{}`))
					c.want(`{"jsonrpc":"2.0","id":3,"error":{"code":-32021,"message":"This request needs the elicitation capability, which this client does not have","data":{"requiredCapabilities":{"elicitation":{}}}}}`)
				}
				c.initialize("2025-11-25", `{"elicitation":{}}`)
				c.send(`{"jsonrpc":"2.0","id":4,"method":"` + method + `","params":{` + params + `}}`)
				c.want(questionLine(1, "elicitation/create", confirmAsk))
				c.send(answer(1, confirmYes))
				c.want(answer(4, `{`+results[method]+`}`))
				c.end()
			})
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, asker(askOnce))
				c.initialize("2025-11-25", `{}`)
				c.send(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`)
				if method == "tools/call" {
					c.want(answer(1, `{"content":[{"type":"text","text":"This request needs the elicitation capability, which this client does not have"}],"isError":true}`))
				} else {
					c.want(wrong(1, codeInternal, "This request needs the elicitation capability, which this client does not have"))
				}
				c.end()
			})
		})
	}
}

// {"action":"accept"} without content is a form without fields, and grants
// nothing that has a default of false.
func TestAcceptWithoutContentIsAFormWithoutFields(t *testing.T) {
	s := &Server{}
	add(s, "typed", func(ctx context.Context) (string, error) {
		_, err := Elicit[struct{}](ctx, "m")
		return "accepted", err
	})
	add(s, "byhand", func(ctx context.Context) (string, error) {
		raw, err := ElicitSchema(ctx, "m", json.RawMessage(`{"type":"object","properties":{}}`))
		return string(raw), err
	})
	add(s, "consent", func(ctx context.Context) (string, error) {
		form, err := Elicit[struct {
			Sure bool `json:"sure" default:"false"`
		}](ctx, "m")
		return strconv.FormatBool(form.Sure), err
	})
	const caps = `{"elicitation":{}}`
	for tool, want := range map[string]string{"typed": "accepted", "byhand": "{}", "consent": "false"} {
		for _, answer := range []string{`{"action":"accept"}`, `{"action":"accept","content":null}`, `{"action":"accept","content":{}}`} {
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				c.send(modernRequest(1, "tools/call", `"name":"`+tool+`"`, caps))
				key, state := onlyQuestion(t, c.recv())
				c.send(modernRequest(1, "tools/call", `"name":"`+tool+`"`, caps, `,"inputResponses":{`+key+`:`+answer+`},"requestState":`+state))
				c.want(modernSaid(1, want))
				c.initialize(legacyPV, caps)
				c.send(call("2", tool, "{}"))
				c.recv()
				c.send(`{"jsonrpc":"2.0","id":1,"result":` + answer + `}`)
				c.want(said("2", want))
				c.end()
			})
		}
	}
}

// The model is told in plain words what this client lacks.
func TestAClientThatCannotAskIsSaidToBeSo(t *testing.T) {
	s := &Server{}
	add(s, "form", func(ctx context.Context) (string, error) {
		_, err := Elicit[struct{}](ctx, "m")
		return "", err
	})
	add(s, "page", func(ctx context.Context) (string, error) { return "", ElicitURL(ctx, "m", "https://x") })
	add(s, "model", func(ctx context.Context) (string, error) {
		_, err := Sample(ctx, SampleRequest{MaxTokens: 1})
		return "", err
	})
	play(t, s, legacyPV, `
		> `+call("1", "form", "{}")+`
		< `+failed("1", "This request needs the elicitation capability, which this client does not have")+`
		> `+call("2", "page", "{}")+`
		< `+failed("2", "This request needs the elicitation.url capability, which this client does not have")+`
		> `+call("3", "model", "{}")+`
		< `+failed("3", "This request needs the sampling capability, which this client does not have"))
}

// A Root without a name marshals without one.
func TestRootWithoutANameHasNone(t *testing.T) {
	raw, err := json.Marshal([]Root{{URI: "file:///a"}, {URI: "file:///b", Name: "B"}})
	if want := `[{"uri":"file:///a"},{"uri":"file:///b","name":"B"}]`; err != nil || string(raw) != want {
		t.Errorf("got %s, %v", raw, err)
	}
}

// ---- what we emit we accept, and what we send fits what we emitted ----

// acceptable holds every node of a schema against what model providers accept.
func acceptable(t *testing.T, where string, v any) {
	node, ok := v.(map[string]any)
	if !ok {
		t.Errorf("%s: %v is no object", where, v)
		return
	}
	typ, _ := node["type"].(string)
	if !slices.Contains([]string{"string", "integer", "number", "boolean", "array", "object"}, typ) {
		t.Errorf("%s: type %v", where, node["type"])
	}
	for key, val := range node {
		switch key {
		case "type", "description", "default", "enum", "format", "contentEncoding", "required",
			"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems":
			if val == nil {
				t.Errorf("%s: %s is null", where, key)
			}
		case "properties":
			for name, p := range val.(map[string]any) {
				acceptable(t, where+"."+name, p)
			}
		case "items":
			acceptable(t, where+"[]", val)
		case "additionalProperties":
			if val != false {
				acceptable(t, where+"[]", val)
			}
		default:
			t.Errorf("%s: %s is not known to everybody", where, key)
		}
	}
	if _, ok := node["properties"]; ok && typ != "object" || !ok && typ == "object" && node["additionalProperties"] != nil {
		t.Errorf("%s: a %s, properties: %v", where, typ, ok)
	}
	if _, ok := node["items"]; ok != (typ == "array") {
		t.Errorf("%s: a %s, items: %v", where, typ, ok)
	}
}

// misfit holds a value against a schema of ours and tells what is wrong. As
// arguments are, lenient values may be null where they are optional, and hold
// numbers, booleans, lists and objects as strings.
func misfit(schema, val any, lenient bool) string {
	s := schema.(map[string]any)
	typ := s["type"].(string)
	if str, isText := val.(string); isText && lenient && typ != "string" {
		var inside any
		if json.Unmarshal([]byte(str), &inside) == nil && strings.TrimSpace(str) == str {
			if _, again := inside.(string); !again {
				val = inside
			}
		}
		if _, isList := val.([]any); typ == "array" && !isList && s["items"].(map[string]any)["type"] == "string" {
			val = []any{str}
		}
	}
	if choice, ok := s["enum"].([]any); ok && !slices.Contains(choice, val) {
		return fmt.Sprint(val, " is not one of ", choice)
	}
	within := func(n float64, low, high string) string {
		if bound, ok := s[low].(float64); ok && n < bound {
			return fmt.Sprint(n, " is below ", low)
		}
		if bound, ok := s[high].(float64); ok && n > bound {
			return fmt.Sprint(n, " is above ", high)
		}
		return ""
	}
	switch v := val.(type) {
	case bool:
		if typ == "boolean" {
			return ""
		}
	case float64:
		if typ == "number" || typ == "integer" && v == math.Trunc(v) {
			return within(v, "minimum", "maximum")
		}
	case string:
		if typ == "string" {
			_, err := base64.StdEncoding.DecodeString(v)
			if s["contentEncoding"] == "base64" && err != nil {
				return "no base64"
			}
			if format, _ := s["format"].(string); !isWellFormed(format, v) {
				return v + " is no " + format
			}
			return within(float64(utf8.RuneCountInString(v)), "minLength", "maxLength")
		}
	case []any:
		if typ == "array" {
			for i, e := range v {
				if why := misfit(s["items"], e, lenient); why != "" {
					return fmt.Sprintf("[%d] %s", i, why)
				}
			}
			return within(float64(len(v)), "minItems", "maxItems")
		}
	case map[string]any:
		if typ == "object" {
			return misfitObject(s, v, lenient)
		}
	}
	return fmt.Sprintf("%v is no %s", val, typ)
}

func misfitObject(s, v map[string]any, lenient bool) string {
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, there := v[name.(string)]; !there {
			return fmt.Sprint(name, " is missing")
		}
	}
	for name, e := range v {
		inner, known := properties[name]
		if !known {
			inner, known = s["additionalProperties"].(map[string]any)
		}
		switch {
		case e == nil && lenient && properties[name] != nil && !slices.Contains(required, any(name)):
		case known:
			if why := misfit(inner, e, lenient); why != "" {
				return name + " " + why
			}
		case s["additionalProperties"] == false:
			return name + " is unknown"
		}
	}
	return ""
}

// A chance makes types and values at random.
type chance struct{ *rand.Rand }

func (c chance) of(n int) bool { return c.IntN(n) == 0 }

func (c chance) text() string {
	return string([]rune("aé€😀\"\\\n<0 \u2028zA")[c.IntN(5):][:c.IntN(6)])
}

// typ makes a type, and tags that say more of it if it is for arguments.
func (c chance) typ(depth int, tagged bool) (t reflect.Type, tags string) {
	tag := func(format string, args ...any) {
		if tagged && c.of(3) {
			tags = fmt.Sprintf(format, args...)
		}
	}
	n := 14
	if depth == 0 {
		n = 9
	}
	switch c.IntN(n) {
	case 0:
		return reflect.TypeFor[bool](), ""
	case 1:
		tag(`minimum:"%d" maximum:"%d"`, -c.IntN(100), c.IntN(100))
		return []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int32](), reflect.TypeFor[time.Duration]()}[c.IntN(4)], tags
	case 2:
		tag(`maximum:"%d"`, c.IntN(200))
		return []reflect.Type{reflect.TypeFor[uint](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16]()}[c.IntN(3)], tags
	case 3:
		tag(`minimum:"-%d.5"`, c.IntN(9))
		return []reflect.Type{reflect.TypeFor[float32](), reflect.TypeFor[float64]()}[c.IntN(2)], tags
	case 4:
		tag(`minLength:"%d" maxLength:"%d"`, c.IntN(3), 3+c.IntN(3))
		return reflect.TypeFor[string](), tags
	case 5:
		tag(`enum:"a,é,b c"`)
		return reflect.TypeFor[string](), tags
	case 6:
		tag(`enum:"1,-2,30"`)
		return reflect.TypeFor[[]string](), tags
	case 7:
		return reflect.TypeFor[[]byte](), ""
	case 8:
		return reflect.TypeFor[time.Time](), ""
	case 9:
		t = c.elem(depth-1, tagged)
		tag(`minLength:"1" maxLength:"3"`)
		if t = reflect.SliceOf(t); t == reflect.TypeFor[[]byte]() {
			tags = ""
		}
		return t, tags
	case 10:
		return reflect.MapOf(reflect.TypeFor[string](), c.elem(depth-1, tagged)), ""
	case 11:
		t, tags = c.typ(depth-1, tagged)
		return reflect.PointerTo(t), tags
	case 12:
		return reflect.TypeFor[map[string]any](), ""
	}
	return c.structType(depth-1, tagged), ""
}

// elem makes the type of an element of a list or a map. Results can be described only if
// no element but an object is a pointer.
func (c chance) elem(depth int, tagged bool) reflect.Type {
	t, _ := c.typ(depth, tagged)
	base := t
	for base.Kind() == reflect.Pointer {
		base = base.Elem()
	}
	if !tagged && (base.Kind() != reflect.Struct || base == reflect.TypeFor[time.Time]()) {
		return base
	}
	return t
}

func (c chance) structType(depth int, tagged bool) reflect.Type {
	var fields []reflect.StructField
	for i := range c.IntN(5) {
		t, tags := c.typ(depth, tagged)
		name := "f" + strconv.Itoa(i)
		json := []string{"", name, name + ",omitempty", name + ",omitzero", "é " + name}[c.IntN(5)]
		fields = append(fields, reflect.StructField{Name: strings.ToUpper(name), Type: t, Tag: reflect.StructTag(`json:"` + json + `" ` + tags)})
	}
	return reflect.StructOf(fields)
}

// fill sets v to anything, nil included.
func (c chance) fill(v reflect.Value) {
	switch k := v.Kind(); {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(c.Int64N(1<<33), c.Int64N(1e9)).UTC()))
	case k == reflect.Bool:
		v.SetBool(c.of(2))
	case v.CanInt():
		v.SetInt(c.Int64() >> c.IntN(64))
	case v.CanUint():
		v.SetUint(c.Uint64() >> c.IntN(64))
	case v.CanFloat():
		v.SetFloat(float64(float32(c.NormFloat64())))
	case k == reflect.String:
		v.SetString([]string{c.text(), "null", "\xff"}[c.IntN(3)])
	case k == reflect.Struct:
		for i := range v.NumField() {
			c.fill(v.Field(i))
		}
	case c.of(3): // nil
	case k == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		c.fill(v.Elem())
	case k == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), c.IntN(3), 3))
		for i := range v.Len() {
			c.fill(v.Index(i))
		}
	case k == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range c.IntN(3) {
			e := reflect.New(v.Type().Elem()).Elem()
			c.fill(e)
			v.SetMapIndex(reflect.ValueOf(c.text()), e)
		}
	case k == reflect.Interface:
		v.Set(reflect.ValueOf([]any{1, nil, "x"}))
	}
}

// value makes a value that fits a schema.
func (c chance) value(schema any) any {
	s := schema.(map[string]any)
	bound := func(key string, without float64) float64 {
		if n, ok := s[key].(float64); ok {
			return n
		}
		return without
	}
	between := func(unit string) int {
		low := int(bound("min"+unit, 0))
		return low + c.IntN(int(bound("max"+unit, 4))-low+1)
	}
	if choice, ok := s["enum"].([]any); ok {
		return choice[c.IntN(len(choice))]
	}
	switch s["type"] {
	case "boolean":
		return c.of(2)
	case "integer":
		low, high := bound("minimum", -1<<30), bound("maximum", 1<<30)
		switch c.IntN(4) { // the bounds are in it
		case 0:
			return low
		case 1:
			return high
		}
		return math.Floor(low + c.Float64()*(high-low))
	case "number":
		return bound("minimum", -5) + float64(c.IntN(100))/4
	case "array":
		list := make([]any, between("Items"))
		for i := range list {
			list[i] = c.value(s["items"])
		}
		return list
	case "object":
		object := make(map[string]any)
		required, _ := s["required"].([]any)
		properties, _ := s["properties"].(map[string]any)
		for _, name := range sortedKeys(properties) {
			switch {
			case slices.Contains(required, any(name)) || c.of(2):
				object[name] = c.value(properties[name])
			case c.of(3):
				object[name] = nil
			}
		}
		if more := s["additionalProperties"]; more != false && c.of(2) {
			if object["k"] = any(1.0); more != nil {
				object["k"] = c.value(more)
			}
		}
		return object
	}
	switch {
	case s["format"] == "date-time":
		return time.Unix(c.Int64N(1<<33), 0).UTC().Format(time.RFC3339)
	case s["contentEncoding"] != nil:
		return base64.StdEncoding.EncodeToString([]byte(c.text()))
	}
	return strings.Repeat("é", between("Length"))
}

func sortedKeys(m map[string]any) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// spoil puts something else in the place of one of the values in val.
func (c chance) spoil(val any) any {
	switch v := val.(type) {
	case []any:
		if len(v) > 0 && !c.of(3) {
			v = slices.Clone(v)
			i := c.IntN(len(v))
			v[i] = c.spoil(v[i])
			return v
		}
	case map[string]any:
		keys := sortedKeys(v)
		switch {
		case c.of(5):
			v["unknown"] = 1.0
			return v
		case len(keys) > 0 && c.of(5):
			delete(v, keys[c.IntN(len(keys))])
			return v
		case len(keys) > 0:
			key := keys[c.IntN(len(keys))]
			v[key] = c.spoil(v[key])
			return v
		}
	case float64:
		if c.of(2) { // which may be just above a bound, or just below
			return v + float64(c.IntN(3)-1)
		}
	case string:
		if c.of(2) {
			return v + "é"
		}
	}
	return []any{nil, true, "true", 5.0, "5", -1.0, 0.5, 300.0, "", "A", "AA==", "x y", []any{}, "[]", []any{nil}, map[string]any{}, "{}", map[string]any{"k": nil}, 1e300}[c.IntN(19)]
}

// Of random types, what fits the schema that we sent is accepted, and what does
// not is refused.
func TestWhatFitsTheSchemaIsAccepted(t *testing.T) {
	refused := 0
	for seed := range uint64(3000) {
		c := chance{rand.New(rand.NewPCG(seed, 1))}
		typ := c.structType(3, true)
		s := mustDerive(typ, "In", reading)
		rendered := s.render()
		var schema any
		if err := json.Unmarshal(rendered, &schema); err != nil {
			t.Fatal(err)
		}
		val := c.value(schema)
		for range c.IntN(3) {
			val = c.spoil(val)
		}
		args, _ := json.Marshal(val)
		if args[0] != '{' {
			continue // not for a tool
		}
		why := misfit(schema, val, true)
		err := (&rules{schema: s}).unmarshal(args, reflect.New(typ).Interface())
		if err != nil {
			refused++
		}
		if (err == nil) != (why == "") && !strings.Contains(string(args), "1e+300") { // which a float32 cannot hold
			t.Errorf("seed %d: %s\nfor %s\ngot  %v\nwant %s", seed, args, rendered, err, why)
		}
	}
	if refused < 300 || refused > 2000 {
		t.Errorf("%d were refused", refused)
	}
}

// Of random types, any value, nil included, fits the schema that we sent once
// it is JSON.
func TestWhatIsSentFitsTheSchema(t *testing.T) {
	for seed := range uint64(3000) {
		c := chance{rand.New(rand.NewPCG(seed, 2))}
		typ := c.structType(3, false)
		if c.of(4) {
			typ = reflect.MapOf(reflect.TypeFor[string](), typ)
		}
		s := mustDerive(typ, "Out", writing)
		rendered := s.render()
		v := reflect.New(typ)
		c.fill(v.Elem())
		raw, err := s.marshal(v.Interface())
		if err != nil && strings.Contains(err.Error(), "has a nil element") {
			continue
		}
		var schema, val any
		if json.Unmarshal(rendered, &schema); err != nil || json.Unmarshal(raw, &val) != nil {
			t.Fatalf("%v: %s %v", typ, raw, err)
		}
		if why := misfit(schema, val, false); why != "" {
			t.Errorf("seed %d: %s\ndoes not fit %s\n%s", seed, raw, rendered, why)
		}
	}
}

// ---- fuzzing: templates ----

// A template matches what it expands to, and its values never climb.
func FuzzTemplate(f *testing.F) {
	f.Add("file:///{+dir}/{name}.txt", "file:///a/b/c.txt", "a/b", "c")
	f.Add("x:{a}-{b}", "x:%2e%2E-%2F", "..", "%2F")
	f.Add("x:{+a}a{+b}", "x:aaaa", "/a//b\\c/./?#", "é\x00")
	f.Add("x:{", "x:%", "../..", "\xff")
	f.Fuzz(func(t *testing.T, template, uri, dir, name string) {
		match := func(template, uri string) (map[string]string, bool) {
			parts, _, err := parseTemplate(template)
			if err != nil {
				return nil, false
			}
			vars, ok := matchTemplate(parts, uri)
			if !ok {
				return nil, false
			}
			for i := 1; i < len(parts); i += 2 {
				varName, reserved := strings.CutPrefix(parts[i], "+")
				if value, ok := vars[varName]; !ok || !harmless(value, reserved) {
					t.Errorf("%q in %q: %s = %q, %t", uri, template, varName, value, ok)
				}
			}
			return vars, true
		}
		match(template, uri)
		uri = "file:///" + expanded(dir, true) + "/" + expanded(name, false) + ".txt"
		vars, ok := match("file:///{+dir}/{name}.txt", uri)
		if want := harmless(dir, true) && harmless(name, false); ok != want {
			t.Errorf("%q matched: %t, want %t", uri, ok, want)
		} else if ok && (vars["dir"] != dir || vars["name"] != name) {
			t.Errorf("%q gave %q, want %q and %q", uri, vars, dir, name)
		}
	})
}

// harmless says what a value may be, in other words than the library does.
func harmless(value string, reserved bool) bool {
	segments := strings.Split(strings.NewReplacer(`\`, "/", "?", "/", "#", "/").Replace(value), "/")
	return value != "" && utf8.ValidString(value) && !strings.Contains(value, "\x00") &&
		!slices.Contains(segments, "..") && !slices.Contains(segments, ".") && (reserved || !strings.ContainsAny(value, `/\`))
}

// expanded is the simple, or the reserved, expansion of RFC 6570.
func expanded(value string, reserved bool) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0,
			reserved && strings.IndexByte(":/?#[]@!$&'()*+,;=", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ---- fuzzing: the scanner, against encoding/json ----

// The scanner takes and refuses what encoding/json does, and finds the same
// members.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,2.5e-3,-0,"\u00e9"]},"result":null,"error":true}`,
		`{"i\u0064":1,"id":2}`, `{"ID":1,"":{},"id":[]}`, "[1,]", `{"a":1,}`, `{"a"}`, `{"a":}`, `{,}`, `[01]`, `[-]`, `[1.]`, `[1e]`, `[1e+5,0.1E-7]`,
		`"\x"`, `"\v"`, `"\u12"`, `"\u12g4"`, "\"\x1f\"", `"abc`, `tru`, `nul`, `falsey`, ` { "a" : [ ] , "b" : { } } `, `{"a":1}x`, `[[[{"a":[{}]}]]]`, `{"\"":"\\"}`, `[1 2]`, `{"a" 1}`, `{1:2}`, `-01`, `"\`, `[`, `{"id":`, `1.0e`, `-1.5e3`, `true`,
		`"a"`, `"\\"`, `"\"\\\"\\\\"`, `["\"0123456789abcdef\"","\"0123456789abc\\\"",1]`, `{"a":"{\"b\":\"c\\\\\"}"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !utf8.Valid(b) {
			return
		}
		i := skipSpace(b, 0)
		end := scan(b, i, 0, nil)
		valid := end >= 0 && skipSpace(b, end) == len(b)
		if want := json.Valid(b); valid != want {
			t.Fatalf("%.200q: valid: got %v, want %v", b, valid, want)
		}
		compact, err := appendCompact(nil, b)
		if (err == nil) != valid {
			t.Errorf("appendCompact: %v", err)
		}
		if i < len(b) { // as accept would, which never sees an empty line
			var e envelope
			e.parseMessage(b[i:]) // must not panic
		}
		if !valid {
			return
		}
		var want bytes.Buffer
		if json.Compact(&want, b); !bytes.Equal(compact, want.Bytes()) {
			t.Errorf("appendCompact: got %q, want %q", compact, &want)
		}
		b = b[i:end]
		for _, after := range []string{"", ",", ":", "]", "}", " ", "\t", "\r", "\n"} {
			if got := skip([]byte(string(b)+after), 0); got != len(b) {
				t.Errorf("skip(%q): got %d, want %d", string(b)+after, got, len(b))
			}
		}
		isID := b[0] == '"' || isWhole(string(b)) && !bytes.ContainsAny(b, "eE")
		if isValidID(b) != isID {
			t.Errorf("validID(%s) = %v", b, !isID)
		}
		var list []json.RawMessage
		if b[0] == '[' && json.Unmarshal(b, &list) == nil {
			for key, val := range members(b) {
				if key != nil || len(list) == 0 || string(val) != string(list[0]) {
					t.Fatalf("member %s: %s", key, val)
				}
				list = list[1:]
			}
			if len(list) > 0 {
				t.Errorf("not found: %s", list)
			}
		}
		if b[0] != '{' {
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		var e envelope
		e.parseMessage(b)
		for name, got := range map[string][]byte{"jsonrpc": e.jsonrpc, "id": e.id, "method": e.method, "params": e.params.raw, "result": e.result, "error": e.err} {
			if (got == nil) != (m[name] == nil) || string(got) != string(m[name]) {
				t.Errorf("%s: got %s, want %s", name, got, m[name])
			}
		}
		if twice := duplicates(b, "jsonrpc", "id", "method", "params", "result", "error"); twice != (e.duplicate != "") {
			t.Errorf("twice: got %q, want %v", e.duplicate, twice)
		}
		all := make(map[string]string)
		for key, val := range members(b) {
			all[string(key)] = string(val)
		}
		if !maps.EqualFunc(all, m, func(a string, b json.RawMessage) bool { return a == string(b) }) {
			t.Errorf("members: got %q, want %q", all, m)
		}
	})
}

// Values may be nested as deeply as encoding/json allows, and no deeper.
func TestDepthIsBoundedAsInEncodingJSON(t *testing.T) {
	for _, nest := range [][3]string{{"[", "", "]"}, {`{"":`, "1", "}"}, {`[{"":`, "[]", "}]"}} {
		for _, n := range []int{4999, 5000, 5001, 9999, 10000, 10001} {
			b := []byte(strings.Repeat(nest[0], n) + nest[1] + strings.Repeat(nest[2], n))
			if got, want := scan(b, 0, 0, nil) == len(b), json.Valid(b); got != want {
				t.Errorf("%d of %s: got %v, want %v", n, nest[0], got, want)
			}
		}
	}
}

// Strings are read and written as encoding/json does.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "plain", `\"\\\/\b\f\n\r\t`, `\u00e9\uD83D\uDE00`, `\ud800`, `\ud800\ud800\udc00`, `\udc00\ud800x`, `\ud800\u0041`, `\uFFFD\ud800\n`, "\x00\x1f\x7f", "<>&", "\u2028\u2029\ufffd", "\xff\xc3\x28\xed\xa0\x80", `a\`, `"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		enc.Encode(s)
		if got := appendString([]byte("x"), s); string(got) != "x"+strings.TrimSuffix(want.String(), "\n") {
			t.Errorf("appendString: got %s, want %s", got, &want)
		}
		for _, raw := range []string{`"` + s + `"`, s, want.String()[:want.Len()-1]} {
			if !json.Valid([]byte(raw)) || raw != strings.TrimSpace(raw) {
				continue
			}
			var plain string
			err := json.Unmarshal([]byte(raw), &plain)
			got, ok := unquote([]byte(raw))
			switch {
			case ok != (raw[0] == '"') || ok && err != nil:
				t.Errorf("text(%q): %v, want %v", raw, ok, err)
			case ok && utf8.ValidString(raw) && got != plain:
				t.Errorf("text(%q) = %q, want %q", raw, got, plain)
			}
		}
	})
}

// A string is appended into room that was reserved for all of it. Only a long one may
// take the memory of an earlier long line. It needs unexported names because the
// memory of a line cannot be seen from outside.
func TestRoomIsReservedForAString(t *testing.T) {
	for _, size := range []int{1 << 10, 16 << 10, 64 << 10} {
		s := strings.Repeat("Plain words, and a few \"quotes\" among them.\n", size/45)
		if n := testing.AllocsPerRun(20, func() { appendString(nil, s) }); n > 2 {
			t.Errorf("%d bytes: %v allocations", len(s), n)
		}
	}
	long := make([]byte, 0, 1<<20)
	longLines.Put(&long)
	if b := appendString(nil, strings.Repeat("a", 1<<10)); cap(b) >= cap(long) {
		t.Errorf("a short string took %d bytes", cap(b))
	}
}

// isWhole reports whether a JSON number has no fraction but zeros.
func isWhole(num string) bool {
	if num == "" || num[0] != '-' && (num[0] < '0' || num[0] > '9') {
		return false
	}
	mantissa, _, _ := strings.Cut(num, "e")
	_, fraction, _ := strings.Cut(mantissa, ".")
	return strings.Trim(fraction, "0") == ""
}

// ---- fuzzing: values to JSON, against encoding/json ----

type (
	color   uint8 // text, by methods of the value
	lang    string
	valJSON struct{ A int }
	ptrJSON struct {
		A int `json:"a"`
		B []string
	}
	ptrList []int          // text, by a method of the pointer
	ptrMap  map[string]int // JSON, by a method of the pointer
	inJSON  struct{ A, B int }
	inText  map[string]bool
	blob    []byte // text, and no base64
	seven   int
	three   struct{ A int }
	Deep    struct {
		ID   int8 `json:"id"`
		Deep string
		X, Y int
	}
	Left struct {
		*Deep
		X    float32 `json:",omitzero"`
		Same bool
		Tag  int `json:"tag"`
	}
	Right struct {
		Deep
		Y    string `json:"Y"`
		Same bool
		Tag  string
	}
	hidden struct {
		Shown, ID int
		private   int
	}
	Plain  string
	secret int
	Cycle  struct {
		*Cycle
		V int
	}
	conflicts struct {
		Left
		Right
		hidden
		Plain
		secret
		Named Deep `json:"named"`
		Tag2  bool `json:"tag"`
	}
	embeds struct {
		*Left
		*hidden
		Right `json:"right,omitempty"`
		*Cycle
		fmt.Stringer
	}
	tagged struct {
		hidden  `json:"hidden,omitzero"`
		Bad     int `json:"bad"`
		Worse   int `json:"worse,omitempty"`
		Space   int `json:"a b<>&"`
		Dash    int `json:"-,"`
		None    int `json:"-"`
		Comma   int `json:",omitempty,string"`
		Ümlaut  int
		Under_  int `json:"_"`
		private int
	}
	numbers struct {
		B   bool    `json:"b,omitempty"`
		I   int     `json:"i,omitempty"`
		I8  int8    `json:"i8,omitempty"`
		I16 int16   `json:"i16,omitempty"`
		I32 int32   `json:"i32,omitempty"`
		I64 int64   `json:"i64,omitempty"`
		U   uint    `json:"u,omitempty"`
		U8  uint8   `json:"u8,omitempty"`
		U16 uint16  `json:"u16,omitempty"`
		U32 uint32  `json:"u32,omitempty"`
		U64 uint64  `json:"u64,omitempty"`
		Ptr uintptr `json:"ptr,omitempty"`
		F32 float32 `json:"f32,omitempty"`
		F64 float64 `json:"f64,omitempty"`
	}
	nested struct {
		S    string                       `json:"s,omitempty"`
		By   []byte                       `json:"by,omitempty"`
		L    []int                        `json:"l,omitempty"`
		LL   [][]string                   `json:"ll,omitempty"`
		LP   []*float32                   `json:"lp,omitempty"`
		M    map[string]float32           `json:"m,omitempty"`
		ML   map[lang]map[string][]uint16 `json:"ml,omitempty"`
		N    numbers                      `json:"n,omitzero"`
		P    *string                      `json:"p"`
		PP   **int8                       `json:"pp"`
		T    *time.Time                   `json:"t"`
		C    color                        `json:"c,omitempty"`
		CL   []color                      `json:"cl,omitempty"`
		Self *nested                      `json:"self"`
		List []nested                     `json:"list,omitempty"`
		Right
		*Left
	}
	required struct {
		A string    `json:"a"`
		B bool      `json:"b"`
		N int       `json:"n" minimum:"-1" maximum:"9"`
		F float64   `json:"f" minimum:"0.5"`
		E string    `json:"e" enum:"x,y"`
		L []int8    `json:"l" minLength:"1" maxLength:"2"`
		D uint8     `json:"d" default:"7" maximum:"8"`
		W string    `json:"w" default:"é" maxLength:"3"`
		T time.Time `json:"t"`
	}
	loose struct {
		numbers
		nested
		Any any         `json:"any"`
		Num json.Number `json:"num"`
		Out valJSON     `json:"out"`
		In  inJSON      `json:"in"`
	}
)

func (c color) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "#%d<\xff", c), nil }

func (c *color) UnmarshalText(b []byte) error {
	n, err := fmt.Sscanf(string(b), "#%d", c)
	return errIf(n != 1 || err != nil)
}

func (l *lang) UnmarshalText(b []byte) error {
	*l = lang(strings.ToLower(string(b)))
	return errIf(len(b) > 5)
}

func (v valJSON) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, ` [ %d, "<\u2028 " ] `, v.A), nil
}

func (v *ptrJSON) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"p" : %d}`, v.A), nil }

func (v *ptrList) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%v", *v), nil }

func (v *ptrMap) MarshalJSON() ([]byte, error) {
	if len(*v) > 2 {
		return []byte("{,}"), nil
	}
	return []byte("7"), nil
}

func (v *inJSON) UnmarshalJSON(b []byte) error { v.A = int(b[0]); return errIf(b[0] == 't') }

func (v *inText) UnmarshalText(b []byte) error { return nil }

func (b *blob) UnmarshalText(t []byte) error { *b = append(*b, t...); return nil }

func (b blob) MarshalText() ([]byte, error) { return b, nil }

func (s seven) IsZero() bool { return s == 7 }

func (t *three) IsZero() bool { return t.A == 3 }

func (s seven) String() string { return "seven" }

// structOf returns a struct with a field of each type. An interface is given
// as a nil pointer to it.
func structOf(tag string, vals ...any) reflect.Type {
	var fields []reflect.StructField
	for i, v := range vals {
		t := reflect.TypeOf(v)
		if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Interface {
			t = t.Elem()
		}
		fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(i), Type: t, Tag: reflect.StructTag(tag)})
	}
	return reflect.StructOf(fields)
}

func errIf(bad bool) error {
	if bad {
		return fmt.Errorf("bad")
	}
	return nil
}

// A source makes values of the bytes of a fuzzer.
type source []byte

func (s *source) next(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func (s *source) bits() uint64 {
	switch i := s.next(10); i {
	case 0, 1, 2, 3:
		return uint64(s.next(256))
	case 4:
		return -uint64(s.next(256))
	case 5:
		return math.Float64bits(math.Pow10(s.next(50) - 25))
	default:
		var b [8]byte
		for i := range b {
			b[i] = byte(s.next(256))
		}
		return binary.LittleEndian.Uint64(b[:]) >> (i % 5 * 8)
	}
}

func (s *source) text() string {
	n := min(s.next(12), len(*s))
	str := string((*s)[:n])
	*s = (*s)[n:]
	return str
}

// value sets v. Nil is only what encoding/json and we write in the same way.
func (s *source) value(v reflect.Value, depth int) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(int64(s.bits()>>31), int64(s.bits()>>40)).UTC()
		if s.next(2) == 0 {
			*x = time.Time{}
		}
		return
	case *json.Number:
		*x = json.Number([]string{"", "0", "-1.5e+9", "007", "true", " 1", "12345678901234567890", "1 "}[s.next(8)])
		return
	case *json.RawMessage:
		*x = json.RawMessage([]string{"null", ` {"a" : "<\u2028" , "b":[ ] }`, "1.50", "[1,]", "", "\"\u2029\""}[s.next(6)])
		return
	case *fmt.Stringer:
		*x = []fmt.Stringer{nil, seven(7), seven(0), time.UTC}[s.next(3)]
		return
	}
	n := min(s.next(4), len(*s), 6-depth)
	switch k := v.Kind(); {
	case k == reflect.Bool:
		v.SetBool(s.next(2) == 1)
	case v.CanInt():
		v.SetInt(int64(s.bits()))
	case v.CanUint():
		v.SetUint(s.bits())
	case k == reflect.Float32:
		v.SetFloat([]float64{float64(math.Float32frombits(uint32(s.bits()))), float64(float32(math.Pow10(s.next(50) - 25)))}[s.next(2)])
	case k == reflect.Float64:
		v.SetFloat(math.Float64frombits(s.bits()))
	case k == reflect.String:
		v.SetString(s.text())
	case k == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		s.value(v.Elem(), depth+1)
	case k == reflect.Interface:
		t := []reflect.Type{nil, reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[float32](), reflect.TypeFor[int64](), reflect.TypeFor[time.Time](), reflect.TypeFor[*ptrJSON](), reflect.TypeFor[ptrMap](), reflect.TypeFor[three](), reflect.TypeFor[*any](), reflect.TypeFor[inJSON](), reflect.TypeFor[func()](), reflect.TypeFor[[]any](), reflect.TypeFor[map[string]any](), reflect.TypeFor[Right]()}[s.next(15)]
		if t != nil && depth < 6 {
			p := reflect.New(t).Elem()
			s.value(p, depth+1)
			v.Set(p)
		}
	case k == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), max(n, 0), max(n, 0)))
		fallthrough
	case k == reflect.Array:
		for i := range v.Len() {
			s.value(v.Index(i), depth+1)
		}
	case k == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range n {
			key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			s.value(key, depth+1)
			s.value(val, depth+1)
			v.SetMapIndex(key, val)
		}
	case k == reflect.Struct:
		for i := range v.NumField() {
			f, tag := v.Type().Field(i), v.Type().Field(i).Tag.Get("json")
			null := strings.Contains(tag, ",omitempty") || f.Anonymous && tag == "" // and not just empty
			switch e := v.Field(i); {
			case null && (e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice) && (depth > 4 || s.next(3) == 0):
			case f.Type == reflect.TypeFor[*Cycle](), depth > 4 && e.Kind() == reflect.Pointer && v.Type() == reflect.TypeFor[nested]():
			case f.IsExported():
				s.value(e, depth+1)
			case f.Anonymous && e.Kind() == reflect.Struct:
				s.value(reflect.NewAt(e.Type(), e.Addr().UnsafePointer()).Elem(), depth+1)
			case f.Anonymous && e.Kind() == reflect.Pointer:
				p := reflect.NewAt(e.Type(), e.Addr().UnsafePointer()).Elem()
				p.Set(reflect.New(e.Type().Elem()))
				s.value(p.Elem(), depth+1)
			}
		}
	}
}

// sameButNil compares what we make of a value with what encoding/json makes of
// it, which writes null where we may write something empty, or nothing.
func sameButNil(ours, theirs any) bool {
	switch theirs := theirs.(type) {
	case nil:
		list, isList := ours.([]any)
		object, isObject := ours.(map[string]any)
		return ours == nil || ours == "" || isList && len(list) == 0 || isObject && len(object) == 0
	case []any:
		list, ok := ours.([]any)
		for i, val := range theirs {
			if !ok || len(list) != len(theirs) || !sameButNil(list[i], val) {
				return false
			}
		}
		return ok
	case map[string]any:
		object, ok := ours.(map[string]any)
		for key, val := range theirs {
			if mine, there := object[key]; there && !sameButNil(mine, val) || !there && val != nil {
				return false
			}
		}
		return ok && len(object) <= len(theirs)
	}
	return reflect.DeepEqual(ours, theirs)
}

// judge is json.Marshal without escapes for HTML.
func judge(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

var (
	anyInput  = (*any)(nil)
	empties   = []any{true, 1.5, "", []int{}, map[string]int{}, new(int), anyInput, [0]int{}, [1]int{}, three{}, uint8(1), new(any), time.Time{}, color(1), json.Number("")}
	zeros     = []any{1, new(int), anyInput, time.Time{}, new(time.Time), seven(1), three{}, &three{}, [2]float32{}, []int{}, (*fmt.Stringer)(nil), map[int8]three{}, ptrList{}}
	quotables = []any{1, new(float32), "", color(1), []int{}, anyInput, json.Number(""), new(bool), Plain(""), valJSON{}, uint64(1), inText{}}
	methods_  = []any{valJSON{}, &valJSON{}, ptrJSON{}, &ptrJSON{}, ptrList{}, &ptrList{}, ptrMap{}, &ptrMap{}, inJSON{}, inText{}, []color{}, map[color]bool{}, map[lang]ptrList{},
		map[time.Month]time.Duration{}, map[uint16]*ptrMap{}, json.RawMessage{}, &json.RawMessage{}, time.Time{}, [2]ptrJSON{}, []any{}, []byte{}, [3]byte{}, new(*int), blob{}}
	encoded = []reflect.Type{
		reflect.TypeFor[conflicts](), reflect.TypeFor[embeds](), reflect.TypeFor[tagged](), reflect.TypeFor[numbers](), reflect.TypeFor[Left](),
		reflect.TypeFor[any](), reflect.TypeFor[[]float32](), reflect.TypeFor[map[string]float64](), reflect.TypeFor[ptrList](), reflect.TypeFor[ptrMap](),
		reflect.TypeFor[[][]byte](), reflect.TypeFor[map[int64]any](), reflect.TypeFor[[]json.Number](), reflect.TypeFor[Cycle](), reflect.TypeFor[time.Time](), reflect.TypeFor[struct{ F func() }](),
		structOf(`json:",omitempty"`, empties...), structOf(`json:",omitzero"`, zeros...), structOf(`json:",omitempty,omitzero"`, slices.Concat(empties, zeros)...),
		structOf(`json:",string"`, quotables...), structOf(`json:",string,omitempty"`, quotables...), structOf("", methods_...),
	}
)

// Values are written as encoding/json writes them, but for nil.
func FuzzEncode(f *testing.F) {
	for i := range encoded {
		f.Add(byte(i), []byte{})
		for seed := range 12 {
			b := make([]byte, 400)
			for j, x := 0, uint64(i*100+seed)*2654435761+1; j < len(b); j++ {
				x = x*6364136223846793005 + 1442695040888963407
				b[j] = byte(x >> 56)
			}
			f.Add(byte(i), b)
		}
	}
	f.Add(byte(8), []byte{3, 0, 19, 1, 0, 46, 1, 0, 47, 1})
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		v := reflect.New(encoded[int(which)%len(encoded)])
		src := source(data)
		src.value(v.Elem(), 0)
		for _, v := range []any{v.Elem().Interface(), v.Interface(), []any{v.Interface()}} {
			want, err := judge(v)
			want = strings.NewReplacer("\u2028", `\u2028`, "\u2029", `\u2029`).Replace(want)
			got, fault := marshal(v)
			same := string(got) == want
			if !same && strings.Contains(want, "null") {
				var x, y any
				json.Unmarshal(got, &x)
				json.Unmarshal([]byte(want), &y)
				same = y == nil || x != nil && sameButNil(x, y)
			}
			if (fault == nil) != (err == nil) || err == nil && !same {
				t.Errorf("%T:\ngot  %s %v\nwant %s %v", v, got, fault, want, err)
			}
		}
	})
}

// A nil slice or map is written as an empty one, and a nil pointer is left out;
// what no JSON can hold is an error, and no panic.
func TestNilIsWrittenAsEmpty(t *testing.T) {
	var self any
	self = &self
	loop := map[string]any{}
	loop["loop"] = []any{loop}
	node := &Cycle{}
	node.Cycle = node
	type list struct{ Next *list }
	round := &list{}
	round.Next = round
	type nils struct {
		L []int
		M map[string]int
		B []byte
		P *int
		I any
		J *ptrJSON
		E *[]int `json:",omitempty"`
		Q *int   `json:",string"`
	}
	for _, test := range []struct {
		v    any
		want string // "" for an error
	}{
		{nils{}, `{"L":[],"M":{},"B":"","I":null}`}, {&nils{}, `{"L":[],"M":{},"B":"","I":null}`}, {(*nils)(nil), "null"}, {nil, "null"},
		{[]*int{nil}, "[null]"}, {[]*ptrJSON{nil, {A: 1}, nil}, `[null,{"p":1},null]`}, {[]map[int]int{nil, {1: 2}}, `[{},{"1":2}]`}, {[][]map[int]bool{nil, {nil}}, "[[],[{}]]"}, {[2]*int{}, "[null,null]"}, {map[string]*int{"a": nil}, `{"a":null}`}, {[]*nils{nil}, ""}, {map[string]*nils{"a": nil}, ""}, {[]*map[string]int{nil}, ""}, {[]*map[string]int{new(map[string]int)}, "[{}]"},
		{[][]int{nil}, "[[]]"}, {[]int(nil), "[]"}, {map[int]int(nil), "{}"},
		{json.RawMessage(nil), "null"}, {struct{ R json.RawMessage }{}, `{"R":null}`}, {(*time.Time)(nil), "null"}, {struct{ J json.Marshaler }{}, `{"J":null}`},
		{float32(1e-6), "0.000001"}, {1e-7, "1e-7"}, {1e21, "1e+21"}, {float32(1e21), "1e+21"}, {math.Copysign(0, -1), "-0"}, {"<&>\u2028\xff", "\"<&>\\u2028\ufffd\""},
		{map[time.Month]int{1: 1, 10: 2}, `{"1":1,"10":2}`}, {json.RawMessage("\"\xff\u2028\""), "\"\ufffd\\u2028\""},
		{math.NaN(), ""}, {float32(math.Inf(-1)), ""}, {[]float64{math.Inf(1)}, ""}, {make(chan int), ""}, {func() {}, ""}, {1i, ""},
		{self, ""}, {loop, ""}, {round, ""}, {[]any{&self}, ""}, {map[struct{}]int{{}: 1}, ""}, {node, `{"V":0}`},
	} {
		raw, err := marshal(test.v)
		got := strings.ReplaceAll(string(raw), `\ufffd`, "\ufffd") // Go versions differ in how they write it
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%T: got %s %v, want %s", test.v, got, err, test.want)
		}
	}
}

// Names of fields and their order are what encoding/json writes, also of types
// made up of what tags there are.
func TestFieldsAreThoseOfEncodingJSON(t *testing.T) {
	types := slices.Clone(encoded)
	names := []string{"", "a", "A", "b", "F1", "x y", "é", "-", "0", "string"}
	opts := []string{"", ",", ",omitempty", ",string", ",omitzero", ",nonsense,omitempty", ", omitempty"}
	for x := range 2000 {
		src := source(binary.LittleEndian.AppendUint64(nil, uint64(x+1)*0x9e3779b97f4a7c15))
		var fields []reflect.StructField
		for i := range 1 + src.next(4) {
			typ := []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[*string](), reflect.TypeFor[[]bool](), reflect.TypeFor[Deep]()}[src.next(4)]
			fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(i), Type: typ, Tag: reflect.StructTag(`json:"` + names[src.next(len(names))] + opts[src.next(len(opts))] + `"`)})
		}
		types = append(types, reflect.StructOf(fields))
	}
	var toEmbed []reflect.Type
	for x := range 6000 {
		src := source(binary.LittleEndian.AppendUint64(nil, uint64(x+1)*0x9e3779b97f4a7c15))
		if x%6 == 0 {
			toEmbed = nil
		}
		var fields []reflect.StructField
		for i := range src.next(3) {
			fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(i), Type: reflect.TypeFor[[]int](), Tag: reflect.StructTag([]string{"", `json:"F0"`, `json:"F1"`, `json:"a"`}[src.next(4)])})
		}
		if n := len(toEmbed); n > 0 {
			for i := range src.next(3) {
				fields = append(fields, reflect.StructField{Name: "E" + strconv.Itoa(i), Type: toEmbed[src.next(n)], Anonymous: src.next(8) > 0})
			}
		}
		toEmbed = append(toEmbed, reflect.StructOf(fields))
		types = append(types, toEmbed[len(toEmbed)-1])
	}
	for _, typ := range types {
		if _, own := reflect.New(typ).Interface().(encoding.TextMarshaler); own || typ.Kind() != reflect.Struct {
			continue
		}
		v := reflect.New(typ)
		src := source(bytes.Repeat([]byte{1}, 4000))
		src.value(v.Elem(), 0)
		line, err := judge(v.Interface())
		if err != nil {
			continue
		}
		var got, want []string
		d := json.NewDecoder(strings.NewReader(line))
		for d.Token(); d.More(); {
			key, _ := d.Token()
			want = append(want, key.(string))
			var val json.RawMessage
			d.Decode(&val)
		}
		s, _ := derive(typ, "", writing)
		for _, f := range s.fields {
			if slices.Contains(want, f.name) || !f.optional {
				got = append(got, f.name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: got %q, want %q", typ, got, want)
		}
	}
}

// ---- fuzzing: arguments, against encoding/json ----

// plain writes arguments the way encoding/json wants them, where we know better,
// and reports whether they fit the schema.
func plain(s *schema, t reflect.Type, val any, strict bool, fits *bool) any {
	for ; t.Kind() == reflect.Pointer; t = t.Elem() {
		if val == nil {
			*fits = *fits && !strict
			return nil
		}
	}
	str, isText := val.(string)
	if isText && (s.kind == "array" || s.kind == "object") {
		var inside any
		if d := json.NewDecoder(strings.NewReader(str)); json.Valid([]byte(str)) {
			d.UseNumber()
			d.Decode(&inside)
			val = inside
		}
	}
	if _, isList := val.([]any); isText && s.kind == "array" && !isList && s.elem.schema.kind == "string" {
		val = []any{str}
	}
	num, isNum := val.(json.Number)
	if isText && json.Valid([]byte(str)) && strings.Trim(str, "-+.eE0123456789") == "" {
		num, isNum = json.Number(str), true
	}
	ok := true
	switch p := reflect.New(t).Interface(); {
	case s.kind == "": // has a method, or is an interface
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || t == reflect.TypeFor[[]byte]():
		ok = isText
	case t == reflect.TypeFor[json.Number]() || t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		ok, val = isNum, num
	case t.Kind() == reflect.Bool:
		if _, ok = val.(bool); str == "true" || str == "false" {
			ok, val = true, str == "true"
		}
	case t.Kind() == reflect.String:
		ok = isText
	case reflect.Int <= t.Kind() && t.Kind() <= reflect.Uintptr:
		mantissa, _, _ := strings.Cut(strings.ToLower(string(num)), "e")
		if strings.Trim(mantissa, "-0.") == "" {
			num = "0"
		} else if f, err := num.Float64(); err == nil && f != 0 { // so its exponent is small enough for a Rat
			if r, ok := new(big.Rat).SetString(string(num)); ok && r.IsInt() {
				num = json.Number(r.Num().String())
			}
		}
		ok, val = isNum && json.Unmarshal([]byte(num), p) == nil, num
	case t.Kind() == reflect.Slice:
		var list []any
		list, ok = val.([]any)
		for i := range list {
			list[i] = plain(s.elem.schema, t.Elem(), list[i], strict, fits)
		}
	case t.Kind() == reflect.Map:
		var m map[string]any
		m, ok = val.(map[string]any)
		for key := range m {
			m[key] = plain(s.elem.schema, t.Elem(), m[key], strict, fits)
		}
	default:
		var m map[string]any
		m, ok = val.(map[string]any)
		for key, val := range m {
			i := slices.IndexFunc(s.fields, func(f *field) bool { return f.name == key })
			if i < 0 || val == nil && (s.fields[i].optional || !strict && s.fields[i].schema.kind != "") {
				*fits = *fits && (i >= 0 || !strict)
				delete(m, key)
			}
		}
		for _, f := range s.fields {
			if m[f.name] == nil && f.dflt != nil {
				json.Unmarshal(f.dflt, &val)
				m[f.name] = val
				if n, isNum := val.(float64); isNum {
					m[f.name] = json.Number(strconv.FormatFloat(n, 'f', -1, 64))
				}
			}
			if val, there := m[f.name]; there {
				m[f.name] = plain(f.schema, t.FieldByIndex(f.index).Type, val, strict, fits)
			} else if ok && strict && !f.optional {
				*fits = false
			}
		}
		val = m
	}
	*fits = *fits && ok
	return val
}

func anyTwice(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	var list []json.RawMessage
	if raw[0] == '{' && json.Unmarshal(raw, &m) == nil {
		list = slices.Collect(maps.Values(m))
		if duplicates(raw) {
			return true
		}
	} else {
		json.Unmarshal(raw, &list)
	}
	return slices.ContainsFunc(list, anyTwice)
}

// Arguments are read as encoding/json reads them, where it is right.
func FuzzArguments(f *testing.F) {
	types := []any{numbers{}, nested{}, required{}, numbers{}, nested{}, loose{}, Right{}, map[string]int8{}, &required{}}
	const lenient = 3
	slips := []string{`"5"`, `5.0`, `1e2`, `null`, `"true"`, `"false"`, `[]`, `{}`, `-1`, `300`, `1e400`, `""`, `"AA=="`, `"A"`, `[null]`, `-0.0`, `1.5`, `"1e1"`, `{"x":1,"x":2}`, `9007199254740993.0`, `18446744073709551615`, `"#5"`, `"x"`, `[1,2,3]`, `"2024-01-01T00:00:00Z"`, `3`, `"[1,2]"`, `"[null]"`, `"{}"`, `" {\"a\":\"b\"}"`}
	one := `{"a":"","b":"true","n":9,"f":"0.5","e":"y","l":[1,"3"],"d":8.0,"t":"2024-02-29T00:00:00.5+01:00"}`
	for i := range types {
		for j, seed := range []string{
			one, `{"i":5.0,"i8":"-128","u":-0,"u64":18446744073709551615,"i64":-9223372036854775808,"f32":1e39,"b":"true"}`, `{"i":1e2,"u8":256,"f64":"1.5e3","f32":1,"i16":null}`, `{"u":-1,"i32":1.50e1,"i8":1.5,"ptr":"0x1"}`,
			`{"by":"AA==","by":"A","l":null}`, `{"l":[1,2.0,"3"],"ll":[["a"],[]],"lp":[null,1e-1],"m":{"":1,"a":null},"ml":{"EN":{"x":[1]}}}`, `{"self":{"self":{"p":"x"},"list":[{"pp":1},{"pp":null}]},"id":3,"Y":"y"}`, `{"t":"2024-01-01T00:00:00Z","c":"#7","cl":["#1","#x"],"n":{"b":true}}`,
			`{"ml":{"toolong":{}},"by":"_-"}`, `{"any":{"a":[1,null,"x",1e400]},"raw":null,"num":"12","out":{"A":1},"in":true}`, `{"S":"x","s\u0000":1,"":2}`, `{"num":1.0,"any":null,"in":null,"raw":[ 1 ],"out":{"A":2}}`, `{"out":{"":0}}`, strings.Replace(one, "9", "-2", 1), strings.Replace(one, `[1,"3"]`, `[1,4]`, 1), strings.Replace(one, `8.0`, `null,"w":"éééé"`, 1), `{"a":1}`, strings.Replace(one, `:9`, `:10`, 1), strings.Replace(one, `"f"`, `"w":"ééé","f"`, 1),
			`{"i":0.1e17}`, `{"i":1e-400}`, `{"u64":1844674407370955161.5e1}`, `{"i":5.0}`, `{"i":5.5}`, `{"i":1.5e1}`, `{"i":15e-1}`, `{"i8":-128}`, `{"i8":300}`, `{"u":-0}`, `{"f32":1e39}`, `{"f32":0.1}`, `{"b":"true"}`, `{"by":"A"}`, `{"by":"AA=="}`, `{"i":1,"i":1}`, `{"num":null}`, `{"any":1e400}`, `{"any":null,"in":null}`,
		} {
			f.Add(byte(i), []byte(seed))
			f.Add(byte(i), []byte(seed)[1+j%4:])
		}
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		n := int(which) % len(types)
		typ := reflect.TypeOf(types[n])
		if !json.Valid(data) || !utf8.Valid(data) || data[0] != '{' { // make it a fitting value, with a slip or two
			src := source(data)
			v := reflect.New(typ).Elem()
			src.value(v, 0)
			line, err := judge(v.Interface())
			if err != nil {
				return
			}
			data = []byte(line)
			for range src.next(3) {
				at := src.next(256)*256 + src.next(256)
				if at = at%len(data) + 1 + bytes.IndexByte(data[at%len(data):], ':'); at > 0 && at < len(data) {
					if end := scan(data, at, 0, nil); end > 0 {
						data = slices.Replace(data, at, end, []byte(slips[src.next(len(slips))])...)
					}
				}
			}
			if !json.Valid(data) || !utf8.Valid(data) || data[0] != '{' {
				return
			}
		}
		strict := n < lenient || n > 5
		s, _ := derive(typ, "fuzz", reading)
		in := &rules{schema: s}
		if !strict {
			in.byHand = &schema{kind: "object", open: true}
		}
		got, want := reflect.New(typ), reflect.New(typ)
		fault := in.unmarshal(data, got.Interface())
		if anyTwice(data) {
			if strict && fault == nil {
				t.Errorf("twice: %s", data)
			}
			return
		}
		var val any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&val); err != nil {
			t.Fatal(err)
		}
		fits := true
		norm, _ := json.Marshal(plain(s, typ, val, strict, &fits))
		err := json.Unmarshal(norm, want.Interface())
		if r, ok := reflect.Indirect(want.Elem()).Interface().(required); ok && err == nil && fits {
			fits = -1 <= r.N && r.N <= 9 && r.F >= 0.5 && (r.E == "x" || r.E == "y") && len(r.L) >= 1 && len(r.L) <= 2 && r.D <= 8 && utf8.RuneCountInString(r.W) <= 3
		}
		if (fault == nil) != (fits && err == nil) {
			t.Errorf("%s\ngot  %v\nwant %v %v of %s", data, fault, fits, err, norm)
		} else if fault == nil && !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Errorf("%s\ngot  %+v\nwant %+v of %s", data, got.Elem(), want.Elem(), norm)
		}
	})
}

// ---- registration: what clients and providers refuse ----

type (
	selfPointer *selfPointer
	firstID     struct{ ID int }
	secondID    struct{ ID int }
	textStruct  struct{ A int }
	textStruct2 struct{ A int }
	shape       interface{ Area() float64 }
)

func (t *textStruct) UnmarshalText([]byte) error  { return nil }
func (t textStruct) MarshalText() ([]byte, error) { return nil, nil }

func (t *textStruct2) UnmarshalText([]byte) error  { return nil }
func (t textStruct2) MarshalText() ([]byte, error) { return nil, nil }

// AddTool panics for what would fail only when a client asks for the list, or when the
// tool is called, and it names the field or the property.
func TestAddToolPanicsForMistakes(t *testing.T) {
	in := func(f func(*Server)) func() { return func() { f(&Server{}) } }
	type ab struct {
		A string `json:"a"`
		B int    `json:"b,omitempty"`
	}
	schema := func(properties string) func() {
		return func() { byHand[json.RawMessage](&Server{}, `{"type":"object",`+properties+`}`) }
	}
	output := func(properties string) func() {
		return func() {
			AddTool(&Server{}, Tool{Name: "x", OutputSchema: json.RawMessage(`{"type":"object",` + properties + `}`)}, func(context.Context, none) (*Result, error) { return nil, nil })
		}
	}
	structIn := func(properties string) func() {
		return func() { byHand[ab](&Server{}, `{"type":"object",`+properties+`}`) }
	}
	for name, test := range map[string]struct {
		want string
		f    func()
	}{
		"option embed": {"In.A: Go versions differ on the json option embed", in(toolOf[struct {
			A struct{ B int } `json:",embed"`
		}])},
		"option inline": {"Out.A: Go versions differ on the json option inline", in(out(struct {
			A map[string]string `json:"a,inline"`
		}{}, nil))},
		"option unknown": {"In.A: Go versions differ on the json option unknown", in(toolOf[struct {
			A map[string]any `json:",unknown"`
		}])},
		"option case": {"In.A: Go versions differ on the json option case", in(toolOf[struct {
			A string `json:"a,case:ignore"`
		}])},
		"option format": {"Out.A: Go versions differ on the json option format", in(out(struct {
			A time.Time `json:"a,format:DateOnly"`
		}{}, nil))},
		"option in a list of results": {"Out[].A: Go versions differ on the json option embed", in(out([]struct {
			A struct{ B int } `json:",embed"`
		}{}, nil))},
		"option with a schema by hand": {"In.A: Go versions differ on the json option embed", func() {
			byHand[struct {
				A struct{ B int } `json:",embed"`
			}](&Server{}, `{"type":"object"}`)
		}},
		"quote in a name": {`In.A: Go versions differ on the JSON name "it's"`, in(toolOf[struct {
			A string `json:"it's"`
		}])},
		"backslash in a name": {"In.A: Go versions differ on the JSON name", in(toolOf[struct {
			A string `json:"a\\b"`
		}])},
		"U+2028 in a name": {"Out.A: Go versions differ on the JSON name", func() {
			mustDerive(reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[string](), Tag: "json:\"\u2028\""}}), "Out", writing)
		}},

		"brackets in an argument": {`the argument name "filter[name]"`, in(toolOf[struct {
			A string `json:"filter[name]"`
		}])},
		"dollar in an argument": {`the argument name "$top"`, schema(`"properties":{"$top":{"type":"integer"}}`)},
		"blank in an argument": {`the argument name "a b"`, in(toolOf[struct {
			A string `json:"a b"`
		}])},
		"long argument":  {"the argument name", schema(`"properties":{"` + strings.Repeat("x", 65) + `":{}}`)},
		"empty argument": {`the argument name ""`, schema(`"properties":{"":{}}`)},

		"boolean property":            {`InputSchema.payload: a property must be described by an object`, schema(`"properties":{"payload":true}`)},
		"list of properties":          {"InputSchema: properties must be an object", schema(`"properties":[]`)},
		"null properties":             {"InputSchema: properties must be an object", schema(`"properties":null`)},
		"null required":               {"InputSchema: required must be a list of names", schema(`"properties":{},"required":null`)},
		"required boolean":            {"InputSchema: required must be a list of names", schema(`"properties":{},"required":true`)},
		"required numbers":            {"InputSchema: required must be a list of names", schema(`"properties":{},"required":[1]`)},
		"nested required":             {"InputSchema.a: required must be a list of names", schema(`"properties":{"a":{"type":"object","required":"b"}}`)},
		"boolean property of results": {`OutputSchema.payload: a property must be described by an object`, output(`"properties":{"payload":true}`)},
		"null required of results":    {"OutputSchema: required must be a list of names", output(`"required":null`)},
		"properties list of results":  {"OutputSchema: properties must be an object", output(`"properties":[{}]`)},
		"required without a property": {`InputSchema: required names "b", which is not a property`, schema(`"properties":{"a":{}},"required":["b"],"additionalProperties":false`)},
		"nested required, closed":     {`InputSchema.a: required names "b"`, schema(`"properties":{"a":{"type":"object","required":["b"],"additionalProperties":false}}`)},
		"minimum as a string":         {"InputSchema.a: minimum must be a number", schema(`"properties":{"a":{"type":"integer","minimum":"1"}}`)},
		"negative length":             {"InputSchema.a: minLength", schema(`"properties":{"a":{"type":"string","minLength":-1}}`)},
		"enum that is not a list":     {"InputSchema.a: enum must be a list", schema(`"properties":{"a":{"enum":"x"}}`)},
		"enum without values":         {"InputSchema.a: enum must not be empty", schema(`"properties":{"a":{"enum":[]}}`)},
		"enum with an empty string":   {"InputSchema.a: enum must not have an empty string", schema(`"properties":{"a":{"type":"string","enum":["x",""]}}`)},
		"typo":                        {"InputSchema is not valid JSON: invalid character '}'", schema(`"properties":{"a":}`)},

		"property in another case":    {`the property "A" and the field "a" differ only in case`, structIn(`"properties":{"A":{"type":"string"},"b":{"type":"integer"}}`)},
		"required property, no field": {`the schema requires "c", which is not a field`, structIn(`"properties":{"a":{},"c":{}},"required":["c"]`)},
		"required field, no property": {`the field "a" is required, but the schema has no such property`, structIn(`"properties":{"b":{"type":"integer"}}`)},
		"property of another type":    {`InputSchema.b: the schema has the type string, but the Go type is of integer`, structIn(`"properties":{"a":{},"b":{"type":"string"}}`)},
		"element of another type": {`InputSchema.l[]: the schema has the type string`, func() {
			byHand[struct {
				L []int `json:"l"`
			}](&Server{}, `{"type":"object","properties":{"l":{"type":"array","items":{"type":"string"}}}}`)
		}},
		"map with another element type": {`InputSchema.a: the schema has the type string`, func() { byHand[map[string]int](&Server{}, `{"type":"object","properties":{"a":{"type":"string"}}}`) }},

		"empty value of an enum": {`In.A: enum: "" is empty`, in(toolOf[struct {
			A string `enum:"asc,desc,"`
		}])},
		"pointer to itself":            {"In.P: a pointer to itself", in(toolOf[struct{ P selfPointer }])},
		"pointer to itself in results": {"Out: a pointer to itself", in(out(selfPointer(nil), nil))},
		"embedded text structs": {"In.textStruct: an embedded struct that is unexported", in(toolOf[struct {
			textStruct  `json:"a"`
			textStruct2 `json:"b"`
		}])},
		"two embedded names": {"In.firstID.ID: encoding/json leaves the field out, because secondID.ID has the same JSON name, ID", in(toolOf[struct {
			firstID
			secondID
		}])},
		"two embedded in results": {"Out.firstID.ID: encoding/json leaves the field out", in(out(struct {
			firstID
			secondID
		}{}, nil))},
		"unexported field with a tag": {"In.hidden: an unexported field has no JSON form", func() { // go vet refuses such a type
			mustDerive(reflect.StructOf([]reflect.StructField{{Name: "hidden", PkgPath: "p", Type: reflect.TypeFor[string](), Tag: `json:"hidden"`}}), "In", reading)
		}},
		"func in a result":          {"Out.F: func() has no JSON form", in(out(struct{ F func() }{}, nil))},
		"chan as a result":          {"Out: chan int has no JSON form", in(out((chan int)(nil), nil))},
		"complex in a list":         {"Out[]: complex128 has no JSON form", in(out([]complex128{}, nil))},
		"func in a map in an array": {"Out[][]: func() has no JSON form", in(out([2]map[string]func(){}, nil))},
		"map with keys of bool":     {"Out.M: map[bool]string has no JSON form", in(out(struct{ M map[bool]string }{}, nil))},
		"error in a result":         {"Out.Err: error has no JSON form", in(out(struct{ Err error }{}, nil))},
		"reader as a result":        {"Out: io.Reader has no JSON form", in(out(io.Reader(nil), nil))},
		"reader with a schema by hand": {"Out.R: io.Reader has no JSON form", func() {
			AddTool(&Server{}, Tool{Name: "x", OutputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, none) (struct{ R io.Reader }, error) { return struct{ R io.Reader }{}, nil })
		}},
	} {
		t.Run(name, func(t *testing.T) { wantPanic(t, test.want, test.f) })
	}
	// What only looks like a mistake is accepted.
	for _, f := range []func(*Server){
		out(struct{ S shape }{}, nil), out(struct{ S fmt.Stringer }{}, nil), out[any](nil, nil),
		out(struct {
			F func() `json:"-"`
		}{}, nil),
		toolOf[struct {
			hidden string `json:"-"`
			A      string
		}],
		toolOf[struct {
			firstID
			secondID
			ID int // hides both
		}],
	} {
		f(&Server{})
	}
	byHand[ab](&Server{}, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"},"more":{"anyOf":[{"required":["x"]}],"minimum":"1"}},"required":["a"]}`)
	byHand[json.RawMessage](&Server{}, `{"type":"object","properties":{"a":{"type":"object","properties":{"b":true},"required":["c"]},"n":{"type":"integer","minimum":0.5,"maximum":1e300}}}`)
}

// A tool that panics at registration is not added, and the Server is as it was: programs
// that register tools from files recover.
func TestAFailedRegistrationChangesNothing(t *testing.T) {
	s := &Server{}
	said := diagnostics(s)
	add(s, "good", noText)
	for _, f := range []func(){
		func() {
			AddTool(s, Tool{Name: "good", Meta: map[string]any{"f": func() {}}}, func(context.Context, none) (string, error) { return "bad", nil })
		},
		func() {
			AddTool(s, Tool{Name: "a.b", Icons: []Icon{{Src: "x"}}}, func(context.Context, none) (string, error) { return "", nil })
		},
		func() { s.AddPrompt(Prompt{Name: "p", Icons: []Icon{{Src: "x"}}}, promptOf()) },
		func() { s.AddResource(Resource{URI: "x:a", Name: "a", Icons: []Icon{{Src: "x"}}}, texts("")) },
		func() {
			s.AddMethod("tools/list", func(context.Context, json.RawMessage) (any, error) { return nil, nil })
		},
	} {
		wantPanic(t, "mcp: ", f)
	}
	if said.Len() > 0 {
		t.Errorf("reported %s", said)
	}
	play(t, s, legacyPV, `
		> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
		< {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"good","inputSchema":{"type":"object","properties":{},"additionalProperties":false}}]}}
		> {"jsonrpc":"2.0","id":2,"method":"prompts/list"}
		< {"jsonrpc":"2.0","id":2,"result":{"prompts":[]}}`)
}

// What is registered is a copy: a caller may reuse its slices and maps.
func TestRegistrationCopiesWhatItIsGiven(t *testing.T) {
	s := &Server{}
	icons, audience, priority := []Icon{{Src: "https://a", Sizes: []string{"any"}}}, []string{"user"}, 0.5
	notes := &Annotations{Audience: audience, Priority: &priority}
	arguments := []Argument{{Name: "a"}}
	complete := map[string]CompleteFunc{"v": words("first")}
	add := func(name string) {
		AddTool(s, Tool{Name: name, Icons: icons, InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}, func(context.Context, json.RawMessage) (string, error) { return "", nil })
		s.AddResource(Resource{URI: "x:" + name, Name: name, Icons: icons, Annotations: notes}, texts(""))
		s.AddResource(Resource{URI: "t:" + name + "/{v}", Name: name, Complete: complete}, texts(""))
		s.AddPrompt(Prompt{Name: name, Arguments: arguments, Icons: icons}, promptOf())
	}
	add("one")
	icons[0].Src, icons[0].Sizes[0], audience[0], priority, notes.LastModified = "https://b", "1x1", "assistant", 0.9, "2026-01-01T00:00:00Z"
	arguments[0].Name = "b"
	complete["v"] = words("second")
	play(t, s, "2025-11-25", `
		> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
		< {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one","inputSchema":{"type":"object","properties":{}},"icons":[{"src":"https://a","sizes":["any"]}]}]}}
		> {"jsonrpc":"2.0","id":2,"method":"resources/list"}
		< {"jsonrpc":"2.0","id":2,"result":{"resources":[{"uri":"x:one","name":"one","annotations":{"audience":["user"],"priority":0.5},"icons":[{"src":"https://a","sizes":["any"]}]}]}}
		> {"jsonrpc":"2.0","id":3,"method":"prompts/list"}
		< {"jsonrpc":"2.0","id":3,"result":{"prompts":[{"name":"one","arguments":[{"name":"a"}],"icons":[{"src":"https://a","sizes":["any"]}]}]}}
		> {"jsonrpc":"2.0","id":4,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"t:one/{v}"},"argument":{"name":"v","value":""}}}
		< {"jsonrpc":"2.0","id":4,"result":{"completion":{"values":["first"],"total":1,"hasMore":false}}}`)
}

// A schema by hand without properties is reported, because some providers refuse it.
func TestASchemaWithoutPropertiesIsReported(t *testing.T) {
	s := &Server{}
	said := diagnostics(s)
	byHand[json.RawMessage](s, `{"type":"object"}`)
	if !strings.Contains(said.String(), `tool "x"`) || !strings.Contains(said.String(), "properties") {
		t.Errorf("reported %q", said)
	}
	said.Reset()
	byHand[json.RawMessage](s, `{"type":"object","properties":{}}`)
	toolOf[map[string]any](s)
	toolOf[none](s)
	if said.Len() > 0 {
		t.Errorf("reported %q", said)
	}
}

// Serve returns an error if a capability is not an object: no client could connect.
func TestCapabilitiesMustBeObjects(t *testing.T) {
	for _, val := range []any{true, nil, "x", []int{1}, json.RawMessage("null")} {
		for _, s := range []*Server{{Extensions: map[string]any{"a": struct{}{}, "com.example/x": val}}, {Experimental: map[string]any{"com.example/x": val}}} {
			s.Name, s.Version = "n", "1"
			if err := s.Serve(t.Context(), strings.NewReader(""), io.Discard); err == nil || !strings.Contains(err.Error(), "com.example/x") {
				t.Errorf("%v: got %v", val, err)
			}
		}
	}
}

// A value that contains itself costs its own call, with every version of Go.
func TestAValueThatContainsItselfCostsItsCall(t *testing.T) {
	var self any
	self = &self
	list := []any{nil}
	list[0] = list
	type node struct{ Next any }
	ring := &node{}
	ring.Next = ring
	for name, v := range map[string]any{"pointer": self, "in a list": []any{1, &self}, "in a map": map[string]any{"a": self}, "in a struct": node{&self}, "list": list, "ring": ring} {
		s := &Server{}
		said := diagnostics(s)
		AddTool(s, Tool{Name: "any"}, func(context.Context, none) (any, error) { return v, nil })
		AddTool(s, Tool{Name: "typed"}, func(context.Context, none) (node, error) { return node{v}, nil })
		AddTool(s, Tool{Name: "result"}, func(context.Context, none) (*Result, error) { return &Result{StructuredContent: v}, nil })
		AddTool(s, Tool{Name: "meta"}, func(context.Context, none) (*Result, error) { return &Result{Meta: map[string]any{"v": v}}, nil })
		add(s, "data", func(context.Context) (string, error) { return "", &Error{Code: 1, Message: "m", Data: v} })
		synctest.Test(t, func(t *testing.T) {
			c := serve(t, s)
			c.initialize(legacyPV, `{}`)
			for _, tool := range []string{"any", "typed", "result", "meta"} {
				c.send(call("1", tool, "{}"))
				c.want(wrong("1", codeInternal, "Internal error"))
			}
			c.send(call("2", "data", "{}"))
			c.want(wrong("2", 1, "m"))
			c.send(pingLine)
			c.want(pongLine)
			c.end()
		})
		if n := strings.Count(said.String(), "contains itself"); n < 4 {
			t.Errorf("%s: reported %d times: %s", name, n, said)
		}
	}
	type tree struct { // shared, but not by itself
		L, R any
	}
	leaf := &tree{1, "x"}
	if got, err := marshal(tree{leaf, []any{leaf, leaf}}); err != nil || string(got) != `{"L":{"L":1,"R":"x"},"R":[{"L":1,"R":"x"},{"L":1,"R":"x"}]}` {
		t.Errorf("got %s %v", got, err)
	}
}

// ---- schemas by hand ----

// A schema that was written by hand is enforced at every depth, for every type of In, and
// with the words of a derived one. A handler that reads raw JSON gets what was converted.
func TestSchemasByHandAreEnforced(t *testing.T) {
	const schema = `{"type":"object","properties":{
		"n":{"type":"integer","minimum":1,"maximum":9},"f":{"type":"number","minimum":0.5},"s":{"type":"string","minLength":2,"maxLength":3},
		"e":{"type":"string","enum":["a","b"]},"v":{"enum":[1,null,"x",{"a":[2]}]},"c":{"const":5},"when":{"type":"string","format":"date-time"},
		"b":{"type":"boolean"},"by":{"type":"string","contentEncoding":"base64"},
		"l":{"type":"array","items":{"type":"string","enum":["x","y"]},"minItems":1,"maxItems":2},
		"o":{"type":"object","properties":{"deep":{"type":"array","items":{"type":"object","properties":{"i":{"type":"integer"}},"required":["i"],"additionalProperties":false}}}},
		"m":{"type":"object","additionalProperties":{"type":"integer"}},
		"p":{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}},
		"u":{"anyOf":[{"type":"string"}],"minimum":3,"pattern":"^x"},"t":{"type":["string","null"]},"any":{}},
		"required":["n"],"additionalProperties":false}`
	trials := []trial{
		{`{}`, "! n is required"},
		{`{"n":10}`, "! n must be at most 9, got 10"},
		{`{"n":0}`, "! n must be at least 1, got 0"},
		{`{"n":1.5}`, "! n must be an integer, got 1.5"},
		{`{"n":"x"}`, `! n must be an integer, got "x"`},
		{`{"n":99999999999999999999}`, "! n must be at most 9, got 99999999999999999999"},
		{`{"n":null}`, "! n must be an integer, got null"},
		{`{"n":1,"n":2}`, "! n came twice"},
		{`{"n":1,"f":0.25,"s":"abcd","e":"c","b":1}`, `! f must be at least 0.5, got 0.25; s must have at most 3 characters, got 4; e must be one of a, b, got "c"; b must be a boolean, got 1`},
		{`{"n":1,"s":5}`, "! s must be a string, got 5"},
		{`{"n":1,"v":2}`, `! v must be one of 1, null, x, {"a":[2]}, got 2`},
		{`{"n":1,"v":{"a":[2.0]},"c":5.0}`, `{"n":1,"v":{"a":[2.0]},"c":5.0}`},
		{`{"n":1,"c":6}`, "! c must be one of 5, got 6"},
		{`{"n":1,"when":"today"}`, `! when must be of the format date-time, as in 2026-01-31T09:30:00Z, got "today"`},
		{`{"n":1,"by":"?"}`, "! by must be base64"},
		{`{"n":1,"l":[]}`, "! l must have at least 1 element, got 0"},
		{`{"n":1,"l":["x","z"]}`, `! l[1] must be one of x, y, got "z"`},
		{`{"n":1,"o":{"deep":[{"i":1},{"i":"?","k":2}]}}`, `! o.deep[1].i must be an integer, got "?"; o.deep[1].k is unknown (there is i)`},
		{`{"n":1,"o":{"deep":[{}],"more":1}}`, "! o.deep[0].i is required"},
		{`{"n":1,"m":{"a":1,"b":true}}`, "! m.b must be an integer, got true"},
		{`{"n":1,"m":{"a":1,"a":2}}`, "! m.a came twice"},
		{`{"n":1,"p":{"a":1,"b":"x"}}`, `{"n":1,"p":{"a":1,"b":"x"}}`},
		{`{"n":1,"p":{"a":"?","b":2}}`, `! p.a must be an integer, got "?"; p.b must be a string, got 2`},
		{`{"n":1,"u":2,"t":5,"any":[null]}`, `{"n":1,"u":2,"t":5,"any":[null]}`},
		{`{"n":1,"z":2}`, "! z is unknown (there is n, f, s, e, v, c, when, b, by, l, o, m, p, u, t, any)"},
		{`{"n":1,"f":null,"o":null,"l":null}`, `{"n":1,"f":null,"o":null,"l":null}`},
		{`{"n":1,"wait_for_previous":true}`, `{"n":1}`},
		// What is accepted in place of another value.
		{`{"n":"2","f":"1.5","b":"true"}`, `{"n":2,"f":1.5,"b":true}`},
		{`{"n":3.0,"l":"x"}`, `{"n":3,"l":["x"]}`},
		{`{"n":1,"l":"[\"x\",\"y\"]","o":"{\"deep\":[{\"i\":\"7\"}]}","any":"5"}`, `{"n":1,"l":["x","y"],"o":{"deep":[{"i":7}]},"any":"5"}`},
		{`{"n":1,"m":{"a":"1","b":2e0}}`, `{"n":1,"m":{"a":1,"b":2}}`},
	}
	type typed struct {
		N    int             `json:"n"`
		F    *float64        `json:"f,omitempty"`
		S    string          `json:"s,omitempty"`
		E    string          `json:"e,omitempty"`
		V    any             `json:"v,omitempty"`
		C    any             `json:"c,omitempty"`
		When *time.Time      `json:"when,omitempty"`
		B    bool            `json:"b,omitempty"`
		By   []byte          `json:"by,omitempty"`
		L    []string        `json:"l,omitempty"`
		O    json.RawMessage `json:"o,omitempty"`
		M    map[string]int  `json:"m,omitempty"`
		P    json.RawMessage `json:"p,omitempty"`
		U    any             `json:"u,omitempty"`
		T    any             `json:"t,omitempty"`
		Any  json.RawMessage `json:"any,omitempty"`
	}
	for name, add := range map[string]func(*Server, string){"raw": byHand[json.RawMessage], "map": byHand[map[string]any], "any": byHand[any], "struct": byHand[typed]} {
		s := &Server{}
		add(s, schema)
		for _, tr := range trials {
			_, results := callX(t, s, legacyPV, tr.args)
			want := strings.Replace(tr.want, "! ", invalidArgs, 1)
			switch got := results[0].text(); {
			case strings.HasPrefix(want, "!") && got != want, strings.HasPrefix(got, "!") && got != want:
				t.Errorf("%s: %s: got %s, want %s", name, tr.args, got, want)
			case name == "raw" && got != want:
				t.Errorf("%s: got %s, want %s", tr.args, got, want)
			}
		}
	}
}

// The schema of a type, given by hand, has the verdict and the words of the derived one.
func TestASchemaByHandIsCheckedAsTheDerivedOneIs(t *testing.T) {
	failed := 0
	for seed := range uint64(3000) {
		c := chance{rand.New(rand.NewPCG(seed, 7))}
		typ := c.structType(3, true)
		derived, wrong := derive(typ, "", reading)
		if wrong != (problems{}) {
			continue
		}
		text := derived.render()
		hand := &rules{schema: &schema{}, byHand: handParser{"x"}.parse(text, "").schema}
		var val any
		json.Unmarshal(text, &val)
		for range 5 {
			args := c.value(val)
			if c.of(2) {
				args = c.spoil(args)
			}
			raw, _ := json.Marshal(args)
			if raw[0] != '{' || bytes.Contains(raw, []byte("e+")) { // a schema does not say that a float32 cannot hold it
				continue
			}
			var rest json.RawMessage
			got := hand.unmarshal(raw, &rest)
			want := (&rules{schema: derived}).unmarshal(raw, reflect.New(typ).Interface())
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("seed %d: %s\nfor %s\nby hand %v\nderived %v", seed, raw, text, got, want)
			}
			if want != nil {
				failed++
			}
			if got == nil {
				if err := (&rules{schema: derived}).unmarshal(rest, reflect.New(typ).Interface()); err != nil {
					t.Errorf("seed %d: %s became %s: %v", seed, raw, rest, err)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	if failed < 1000 {
		t.Errorf("only %d were wrong", failed)
	}
}

// A field whose name Go versions read differently does no harm in a value of any type,
// which AddTool cannot look at.
func TestAnOddNameInADynamicValueIsSent(t *testing.T) {
	for _, tag := range []reflect.StructTag{"json:\"\u2028\"", `json:"it's"`, `json:",embed"`, `json:"a,case:ignore"`} {
		typ := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[*int](), Tag: tag}, {Name: "L", Type: reflect.TypeFor[[]int]()}})
		raw, err := marshal(reflect.Zero(typ).Interface())
		if err == nil && !json.Valid(raw) {
			t.Errorf("%s: got %s", tag, raw)
		}
	}
}
