// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"regexp"
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

// ---- one tool, called x ----

// toolOf adds a tool x that returns its arguments as encoding/json sees them.
func toolOf[In any](s *Server) { AddTool(s, Tool{Name: "x"}, echo[In]) }

// byHand is toolOf with a schema written by hand.
func byHand[In any](s *Server, schema string) {
	AddTool(s, Tool{Name: "x", InputSchema: json.RawMessage(schema)}, echo[In])
}

func echo[In any](_ context.Context, in In) (string, error) {
	raw, err := json.Marshal(in)
	return string(raw), err
}

// out is a tool that returns v and err, with an output schema if there is one.
func out[T any](v T, err error, schema ...string) func(*Server) {
	return func(s *Server) {
		tool := Tool{Name: "x"}
		if schema != nil {
			tool.OutputSchema = json.RawMessage(schema[0])
		}
		AddTool(s, tool, func(context.Context, none) (T, error) { return v, err })
	}
}

// A toolResult is what a call gave, or the error that it gave.
type toolResult struct {
	Content []struct{ Text string }
	Output  any `json:"structuredContent"`
	IsError bool
	failed  string
}

// text is the one text of a result, behind an "! " if it is an error.
func (r toolResult) text() string {
	switch {
	case r.failed != "":
		return "!! " + r.failed
	case len(r.Content) != 1:
		return fmt.Sprintf("%d blocks", len(r.Content))
	case r.IsError:
		return "! " + r.Content[0].Text
	}
	return r.Content[0].Text
}

// callX lists the only tool of s, which is called x, and calls it with each of these arguments.
func callX(t *testing.T, s *Server, args ...string) (tool struct{ InputSchema, OutputSchema json.RawMessage }, results []toolResult) {
	t.Helper()
	var m struct {
		Result struct {
			Tools []struct{ InputSchema, OutputSchema json.RawMessage }
			toolResult
		}
		Error struct{ Message string }
	}
	inBubble(t, s, legacyPV, func(c *client) {
		json.Unmarshal([]byte(c.ask("1 tools/list")[0]), &m)
		if len(m.Result.Tools) == 1 {
			tool = m.Result.Tools[0]
		}
		for _, a := range args {
			m.Result.toolResult, m.Error.Message = toolResult{}, ""
			json.Unmarshal([]byte(c.ask("1 call x " + a)[0]), &m)
			m.Result.failed = m.Error.Message
			results = append(results, m.Result.toolResult)
		}
	})
	return tool, results
}

// A trial is arguments and the text that comes of them, or its beginning if that ends with ": ".
type trial struct{ args, want string }

// try calls the tool x of s, and compares the texts.
func try(t *testing.T, s *Server, trials ...trial) {
	t.Helper()
	var args []string
	for _, tr := range trials {
		args = append(args, tr.args)
	}
	_, results := callX(t, s, args...)
	for i, tr := range trials {
		want := strings.Replace(tr.want, "! ", "! Invalid arguments: ", 1)
		if got := results[i].text(); got != want && !(strings.HasSuffix(want, ": ") && strings.HasPrefix(got, want)) {
			t.Errorf("%.200s: got %s, want %s", tr.args, got, want)
		}
	}
}

const invalidArgs = "! Invalid arguments: "

// ---- registration ----

type (
	ab struct {
		A string `json:"a"`
		B int    `json:"b,omitempty"`
	}
)

// structOf returns a struct with a field F0 of the type of v, with these tags.
func structOf(tag string, v any) reflect.Type {
	return reflect.StructOf([]reflect.StructField{{Name: "F0", Type: reflect.TypeOf(v), Tag: reflect.StructTag(tag)}})
}

// inStruct returns a function that describes a struct for arguments. It needs an unexported
// name because AddTool takes no type that was made at run time.
func inStruct(tag string, v any) func() {
	return func() { new(Server).addTool(&Tool{Name: "t"}, structOf(tag, v), reflect.TypeFor[string](), nil) }
}

// onServer returns a function that registers something with a new Server.
func onServer(f func(*Server)) func() { return func() { f(&Server{}) } }

// addEmpty adds a tool that does nothing.
func addEmpty(s *Server, tool Tool) {
	AddTool(s, tool, func(context.Context, none) (string, error) { return "", nil })
}

// A mistake is a registration that must panic with a message that contains want.
type mistake struct {
	want string
	f    func()
}

func wantPanics(t *testing.T, mistakes []mistake) {
	t.Helper()
	for _, m := range mistakes {
		wantPanic(t, m.want, m.f)
	}
}

// A tool that cannot be listed or called panics at registration, and the message names the
// tool and what is wrong.
func TestInvalidToolsPanic(t *testing.T) {
	tool := func(tool Tool) func() { return func() { addEmpty(&Server{}, tool) } }
	named := func(name string) func() { return tool(Tool{Name: name}) }
	input := func(schema string) func() { return tool(Tool{Name: "x", InputSchema: json.RawMessage(schema)}) }
	promises := `mcp: tool "x": OutputSchema promises structured output, but the type `
	wantPanics(t, []mistake{
		{`mcp: tool "": the name must have 1 to 128 of A-Z a-z 0-9 _ - .`, named("")},
		{`: the name must have 1 to 128 of A-Z a-z 0-9 _ - .`, named(strings.Repeat("x", 129))},
		{`mcp: tool "a b": the name must have 1 to 128 of A-Z a-z 0-9 _ - .`, named("a b")},
		{`mcp: tool "é": the name must`, named("é")},
		{`mcp: tool "[x]": the name must`, named("[x]")},
		{`mcp: tool "x": Meta: `, tool(Tool{Name: "x", Meta: map[string]any{"f": func() {}}})},
		{`a schema must be a JSON object`, input(`[]`)},
		{`InputSchema: it is not valid JSON: unexpected end`, input(`{"type":"object"`)},
		{`InputSchema: it is not valid JSON: unexpected end`, func() { // beside a field, whose tags are looked for in the schema
			AddTool(&Server{}, Tool{Name: "x", InputSchema: json.RawMessage(`{":1}`)}, echo[struct {
				A string `minLength:"1"`
			}])
		}},
		{`InputSchema: it is not valid JSON: not UTF-8`, input(`{"type":"object","title":"` + "\xe9" + `"}`)},
		{`a schema must be a JSON object`, func() {
			AddTool(&Server{}, Tool{Name: "x", OutputSchema: json.RawMessage(`true`)}, func(context.Context, none) (map[string]any, error) { return nil, nil })
		}},
		{"In must be a struct or a map, because no object can be stored in int", func() {
			AddTool(&Server{}, Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}, func(context.Context, int) (string, error) { return "", nil })
		}},
		{`"type": "object"`, input(`{"type":"string"}`)},
		{`"type": "object"`, input(`{"type":["object"]}`)},
		{promises + "string has none", onServer(out("", nil, objectSchema))},
		{promises + "struct {} has none", onServer(out(none{}, nil, objectSchema))},
		{promises + "[]mcp.Content has none", onServer(out([]Content{}, nil, objectSchema))},
		{promises + "*mcp.Content has none", onServer(out(&Content{}, nil, objectSchema))},
		{`mcp: tool "x": In must be a struct or a map`, onServer(toolOf[string])},
		{`cannot be described: it has a JSON form`, onServer(toolOf[json.RawMessage])},
		{`mcp: tool "x": the handler is nil`, func() { AddTool[none, string](&Server{}, Tool{Name: "x"}, nil) }},
		{`mcp: tool "x": the handler is nil`, func() {
			type handler func(context.Context, none) (*Result, error)
			AddTool(&Server{}, Tool{Name: "x", InputSchema: json.RawMessage(openSchema)}, handler(nil))
		}},
		{`mcp: resource "x:a": the ReadFunc is nil`, onServer(func(s *Server) { s.AddResource(Resource{URI: "x:a", Name: "a"}, nil) })},
		{`mcp: resource "x:{a}": the ReadFunc is nil`, onServer(func(s *Server) { s.AddResource(Resource{URI: "x:{a}", Name: "a"}, ReadFunc(nil)) })},
		{`mcp: prompt "p": the PromptFunc is nil`, onServer(func(s *Server) { s.AddPrompt(Prompt{Name: "p"}, PromptFunc(nil)) })},
		{`mcp: method "m": the handler is nil`, onServer(func(s *Server) { s.AddMethod("m", nil) })},
	})
	for name, isReported := range map[string]bool{"a.b": true, strings.Repeat("x", 128): true, strings.Repeat("x", 65): true, "1c_reload": true, "-a": true, ".a": true,
		strings.Repeat("x", 64): false, "A-z_9": false, "_1": false} {
		var s Server
		addEmpty(&s, Tool{Name: name})
		if got := reports(t, &s); strings.Count(got, "\n") != strings.Count(got, "mcp: tool "+strconv.Quote(name)+": its name should have at most 64 of ") || (got != "") != isReported || len(got) > 201 {
			t.Errorf("%s: reported %q", name, got)
		}
	}
}

// A type that cannot be described panics at registration if it is to be described. The message
// names the field and says what to write.
func TestInvalidTypesPanic(t *testing.T) {
	wantPanics(t, []mistake{
		{`mcp: tool "x": In.F: func() cannot be described`, onServer(toolOf[struct{ F func() }])},
		{`mcp: tool "x": In.A.B[]: interface {} cannot be described`, onServer(toolOf[struct{ A struct{ B []any } }])},
		{`In.A: interface {} cannot be described: write a concrete type that JSON has, or map[string]any, or leave it out by the tag json:"-", or set InputSchema`, onServer(toolOf[struct{ A any }])},
		{`cannot be described: it has a JSON form of its own`, onServer(toolOf[struct{ A json.RawMessage }])},
		{`In.M: map[int]string cannot be described: write a map with string keys`, onServer(toolOf[struct{ M map[int]string }])},
		{`In.A: [2]int cannot be described: write a slice`, onServer(toolOf[struct{ A [2]int }])},
		{`In.A[]: fmt.Stringer cannot be described`, onServer(toolOf[struct{ A map[string]fmt.Stringer }])},
		{`In.C: complex128 cannot be described`, onServer(toolOf[struct{ C complex128 }])},
		{`In.C: mcp.custom cannot be described: it has a JSON form of its own`, onServer(toolOf[struct{ C custom }])},
		{`In.F0: int cannot be described: leave out the json option string`, inStruct(`json:",string"`, 1)},
		{"In.A.Temp: float64 cannot be described: encoding/json does not use its name \"temp_°C\"", onServer(toolOf[struct {
			A struct {
				Temp float64 `json:"temp_°C"`
			}
		}])},
		{`mcp: SchemaOf: chan int cannot be described`, func() { SchemaOf[chan int]() }},
		{`the argument name "filter[name]"`, onServer(toolOf[struct {
			A string `json:"filter[name]"`
		}])},
		// Types without an end.
		{`In.E: mcp.listOfItself cannot be described: it is a list of nothing but itself; write a list of structs, or set InputSchema`, onServer(toolOf[struct{ E listOfItself }])},
		{`In.E[]: mcp.listOfItself cannot be described`, onServer(toolOf[struct{ E map[string]*listOfItself }])},
		{`In.A.B[]: mcp.listOfPointers cannot be described`, onServer(toolOf[struct{ A struct{ B []listOfPointers } }])},
		{`cannot be described: it is a list of nothing but itself`, onServer(toolOf[struct{ A listA }])},
		{`cannot be described: it is a list of nothing but itself`, func() { SchemaOf[listA]() }},
	})
	// These have an end, or are left to encoding/json.
	derived[mapOfItself](t, trial{`{"a":{"b":{"c":{}}}}`, `{"a":{"b":{"c":{}}}}`})
	derived[struct{ A []listOfMaps }](t, trial{`{"A":[[{"k":[{}]}]]}`, `{"A":[[{"k":[{}]}]]}`})
	hand[struct{ E listOfItself }](openSchema)(t, trial{`{"E":[[],[[]]]}`, `{"E":[[],[[]]]}`})
	// additionalProperties says nothing about the elements of a list.
	hand[struct{ E []int }](`{"type":"object","properties":{"E":{"additionalProperties":{"type":"object"}}}}`)(t, trial{`{"E":[1]}`, `{"E":[1]}`})
	wantPanic(t, "cannot be described", onServer(toolOf[struct{ E pointsToOther }]))
	s := &Server{}
	out(struct{ E listOfItself }{listOfItself{nil, {}}}, nil)(s)
	if tool, results := callX(t, s, "{}"); tool.OutputSchema != nil || results[0].text() != `{"E":[null,[]]}` {
		t.Errorf("got %s, %s", tool.OutputSchema, results[0].text())
	}
	SchemaOf[struct {
		F func() `json:"-"`
		L []*string
		M map[string]*map[string]any
	}]()
}

type (
	listOfItself   []listOfItself
	listOfPointers []*listOfPointers
	listA          []listB
	listB          []*listA
	pointsToOther  *pointsBack
	pointsBack     *pointsToOther
	mapOfItself    map[string]mapOfItself
	listOfMaps     []map[string]listOfMaps
)

// A meta is embedded as the types of Kubernetes are.
type meta struct {
	Name string `json:"name,omitempty"`
	Own  custom `json:"own"`
}

// What can be described of a type of another module is described, and its other parts are left
// to encoding/json: as Out there is then no output schema, and In needs a schema by hand.
func TestTypesOfOtherModules(t *testing.T) {
	type object struct {
		meta  `json:",inline"`
		*Deep `json:",inline"`
		Err   error
		R     io.Reader
	}
	const sent = `{"name":"a","own":1,"Err":null,"R":null}`
	v := object{meta: meta{Name: "a"}}
	for _, add := range []func(*Server){out(v, nil), out(&v, nil), out([]object{v}, nil)} {
		s := &Server{}
		add(s)
		tool, results := callX(t, s, "{}")
		if got := strings.Trim(results[0].text(), "[]"); tool.OutputSchema != nil || got != sent {
			t.Errorf("got %s, %s", tool.OutputSchema, got)
		}
	}
	s := &Server{}
	out(struct {
		Temp int `json:"temp_°C"`
	}{21}, nil)(s)
	if tool, _ := callX(t, s, "{}"); tool.OutputSchema != nil {
		t.Errorf("encoding/json does not write the name in %s", tool.OutputSchema)
	}
	wantPanic(t, "In.meta.Own: mcp.custom cannot be described", onServer(toolOf[object]))
	hand[struct {
		meta  `json:",inline"`
		*Deep `json:",inline"`
	}](openSchema)(t, trial{`{"name":"a","X":2}`, `{"name":"a","own":1,"id":0,"Deep":"","X":2,"Y":0}`})
	derived[struct {
		embeddedBase `json:",inline,omitempty"`
	}](t, trial{`{"id":"1","name":"a"}`, `{"id":"1","name":"a"}`}, trial{`{"id":"1"}`, "! name is required"})
}

// A tag that is invalid for its field panics at registration, and the message names the
// field.
func TestInvalidTagsPanic(t *testing.T) {
	for _, test := range []struct {
		v         any
		tag, want string
	}{
		{true, `enum:"true"`, `enum must be on a plain string`},
		{1, `enum:"1,2"`, `enum must be on a plain string`}, // one provider refuses every tool otherwise
		{time.Time{}, `enum:"today"`, `enum must be on a plain string`},
		{[]byte{}, `enum:"x"`, `enum must be on a plain string`},
		{"", `enum:"a, b"`, `enum must be on a plain string or a list of them, without a blank after a comma`},
		{"", `enum:"asc,desc,"`, "enum must not have an empty string"},
		{"", `enum:""`, "enum must not have an empty string"},
		{1, `minimum:"one"`, `properties.F0.minimum must be a number, got "one"`},
		{1, `minimum:"\"5\""`, `properties.F0.minimum must be a number, got "5"`},
		{1, `minimum:""`, `properties.F0.minimum must be a number, got ""`},
		{"", `maximum:"1"`, "maximum has no effect here"},
		{[]int{}, `maxLength:"1"`, "maxLength has no effect here"},
		{"", `minItems:"1"`, "minItems has no effect here"},
		{"", `minLength:""`, `properties.F0.minLength must be an integer, got ""`},
		{"", `minLength:"0.5"`, "properties.F0.minLength must be an integer, got 0.5"},
		{1, `minLength:"1"`, "minLength has no effect here"},
		{"", `maxLength:"-1"`, "properties.F0.maxLength must be at least 0, got -1"},
		{"", `format:""`, "format must be"},
		{"", `format:"zip"`, "format must be"},
		{time.Time{}, `format:"date"`, "format must be"},
		{[]byte{}, `format:"email"`, "format must be"},
		{1, `default:"5.5"`, "default: must be an integer"},
		{1, `default:"null"`, `default: must be an integer, got "null"`},
		{1, `default:"1 2"`, `default: must be an integer, got "1 2"`},
		{1, `default:"\"5\""`, "default: must be an integer"},
		{[]int{}, `default:"[1,\"2\"]"`, "default: [1] must be an integer"},
		{struct {
			L []string `json:"l,omitempty"`
		}{}, `default:"{\"l\":\"\"}"`, "default: l must be an array"},
		{[]string{}, `default:"[5]"`, "default: [0] must be a string"},
		{"", `default:"c" enum:"a,b"`, `default: must be one of "a", "b"`},
		{1, `default:"4" maximum:"3"`, "default: must be at most 3"},
		{1, `minimum:"5" maximum:"2"`, "nothing can be at least 5 and at most 2"},
		{1.5, `maximum:"-1e1" minimum:"-9.5"`, "nothing can be at least -9.5 and at most -1e1"},
		{int8(1), `minimum:"200"`, "nothing can be at least 200 and at most 127"},
		{uint(1), `maximum:"-1"`, "nothing can be at least 0 and at most -1"},
		{"", `minLength:"3" maxLength:"2"`, "nothing can be at least 3 and at most 2"},
		{[]int{}, `minItems:"10" maxItems:"9"`, "nothing can be at least 10 and at most 9"},
		{[]string{}, `default:"[\"a\"]" minItems:"2"`, "default: must have a length of at least 2"},
	} {
		where := "In.F0: "
		if strings.HasPrefix(test.want, "properties.") { // a fault of the schema as a whole
			where = "In: "
		}
		wantPanic(t, where+test.want, inStruct(test.tag, test.v))
	}
	wantPanics(t, []mistake{
		{"Out: properties.A.maxLength must be an integer, got \"x\"", onServer(out(invalidTag{}, nil))},
		{"SchemaOf: properties.A.maxLength must be an integer, got \"x\"", func() { SchemaOf[invalidTag]() }},
		{`In: properties.A.maxLength must be an integer, got "x"`, onServer(toolOf[invalidTag])},
		{"In.L[].M[].A: format must be", onServer(toolOf[struct {
			L []struct {
				M map[string]struct {
					A string `format:"zip"`
				}
			}
		}])},
	})
}

type invalidTag struct {
	A string `maxLength:"x"`
}

// A jsonschema tag in another library's dialect panics. Models would read it as a
// description.
func TestForeignJSONSchemaTagPanics(t *testing.T) {
	described := func(text string, why *purpose) string {
		s, d := derive(structOf(`jsonschema:`+strconv.Quote(text), ""), "w", why)
		return string(d.render(s, ""))
	}
	for _, text := range []string{"required", "required,description=x", "description=the path", "title=a,description=b", "enum=a,enum=b", "type=string", "WORD=x"} {
		wantPanic(t, "w.F0: jsonschema is", func() { described(text, forArguments) })
		wantPanic(t, "is the description alone", func() { described(text, forResults) })
	}
	for _, text := range []string{"is it required?", "what is required, and what not", "an equation, such as a=b", "the path", "a, b, or c",
		"labels as key=value pairs", "one of a,b,c", "x == y", "Required."} {
		if got := described(text, forArguments); !strings.Contains(got, `"description":`+quote(text)) {
			t.Errorf("%s: %s", text, got)
		}
	}
	described("", forArguments)
	// All fields of a type that have it are named, so that they are mended at once.
	wantPanic(t, "In.A, C: jsonschema is a tag of another library's form", onServer(toolOf[struct {
		A int `jsonschema:"required"`
		B int `jsonschema:"the number"`
		C int `jsonschema:"description=x"`
	}]))
	wantPanic(t, "In.P[].A, B: jsonschema is", onServer(toolOf[struct {
		P []struct {
			A int `jsonschema:"required,minimum=1"`
			B int `jsonschema:"-"`
		}
	}]))
}

// A schema written by hand panics if clients or providers would refuse it, or if In is a
// struct that does not fit it.
func TestInvalidSchemasByHandPanic(t *testing.T) {
	for _, test := range []struct{ members, want string }{
		{`"properties":{"$top":{"type":"integer"}}`, `the argument name "$top"`},
		{`"properties":{"` + strings.Repeat("x", 65) + `":{}}`, "the argument name"},
		{`"properties":{"":{}}`, `the argument name ""`},
		{`"properties":{"payload":true}`, `InputSchema: properties.payload must be an object, got true`},
		{`"properties":[]`, "InputSchema: properties must be an object, got []"},
		{`"properties":null`, "InputSchema: properties must be an object"},
		{`"properties":{},"required":null`, "InputSchema: required must be an array, got null"},
		{`"properties":{},"required":"n"`, `InputSchema: required must be an array, got "n"`},
		{`"properties":{},"required":[1]`, "InputSchema: required[0] must be a string, got 1"},
		{`"properties":{"a":{"type":"object","required":"b"}}`, `InputSchema: properties.a.required must be an array, got "b"`},
		{`"properties":{"a":{"properties":{"b":true}}}`, "InputSchema.a: properties.b must be an object, got true"},
		{`"properties":{"a":{"type":[]}}`, `InputSchema: properties.a.type must name types of JSON Schema, got []`},
		{`"properties":{"a":{"type":null}}`, `InputSchema: properties.a.type must be a string or an array, got null`},
		{`"properties":{"a":{"type":[["string"]]}}`, `InputSchema: properties.a.type[0] must be a string, got ["string"]`},
		{`"properties":{"a":{"type":"string,null"}}`, `InputSchema: properties.a.type must name types of JSON Schema, got "string,null"`},
		{`"properties":{"a":{"type":["string",null]}}`, `InputSchema: properties.a.type[1] must be a string, got null`},
		{`"properties":{"a":{"type":{"string":1}}}`, `InputSchema: properties.a.type must be a string or an array, got {"string":1}`},
		{`"properties":{"a":{},"b":{},"\u0061":{}}`, `InputSchema: properties.a came twice`},
		{`"properties":{"a":{"type":"array","items":{"properties":{"b":{},"b":{}}}}}`, `InputSchema: properties.a.items.properties.b came twice`},
		{`"properties":{"a":{"type":"string","type":"integer"}}`, `InputSchema: properties.a.type came twice`},
		{`"properties":{"a":{"type":"integer","minimum":5,"maximum":2}}`, "InputSchema.a: nothing can be at least 5 and at most 2"},
		{`"properties":{"a":{"type":["null","string"],"maxLength":1,"minLength":2}}`, "InputSchema.a: nothing can be at least 2 and at most 1"},
		{`"properties":{"a":{"type":"array","items":{"type":"array","minItems":1e1,"maxItems":9}}}`, "InputSchema.a[]: nothing can be at least 1e1 and at most 9"},
		{`"properties":{"a":{"type":"string","minLength":2,"default":"x"}}`, `InputSchema.a: default: must have a length of at least 2, got 1`},
		{`"properties":{"a":{"type":"array","items":[{}]}}`, "InputSchema: properties.a.items must be an object or a boolean, got [{}]"},
		{`"properties":{"a":{"items":"string"}}`, `InputSchema: properties.a.items must be an object or a boolean, got "string"`},
		{`"additionalProperties":"no"`, `InputSchema: additionalProperties must be an object or a boolean, got "no"`},
		{`"properties":{"a":{"type":"integer","default":"5"}}`, `InputSchema.a: default: must be an integer, got "5"`},
		{`"properties":{"a":{"type":"object","properties":{"b":{"type":"integer","maximum":3,"default":4}}}}`, "InputSchema.a.b: default: must be at most 3"},
		{`"properties":{"a":{}},"required":["a","a"]`, `InputSchema: required names "a" twice`},
		{`"properties":{"a":{"type":"int"}}`, `InputSchema: properties.a.type must name types of JSON Schema, got "int"`},
		{`"properties":{"a":{"type":["string","nil"]}}`, `InputSchema: properties.a.type must name types of JSON Schema, got ["string","nil"]`},
		{`"properties":{"a":{"type":""}}`, `InputSchema: properties.a.type must name types of JSON Schema, got ""`},
		{`"properties":{"a":{"type":5}}`, `InputSchema: properties.a.type must be a string or an array, got 5`},
		{`"properties":{"a":{"type":"integer","minimum":"1"}}`, `InputSchema: properties.a.minimum must be a number, got "1"`},
		{`"properties":{"a":{"type":"string","minLength":-1}}`, "InputSchema: properties.a.minLength must be at least 0, got -1"},
		{`"properties":{"a":{"enum":"x"}}`, `InputSchema: properties.a.enum must be an array, got "x"`},
		{`"properties":{"a":{"enum":[]}}`, "InputSchema: properties.a.enum must have a length of at least 1, got 0"},
		{`"properties":{"a":{"type":"string","enum":["x",""]}}`, "InputSchema.a: enum must not have an empty string"},
		{`"properties":{"a":{"type":"integer","enum":["1","2"]}}`, "InputSchema.a: no value of enum is a valid "},
		{`"properties":{"a":{"type":"array","items":{"type":"string","maxLength":1,"enum":["aa","bb"]}}}`, "InputSchema.a[]: no value of enum is a valid "},
		{`"properties":{"a":{"type":"string","const":5}}`, "InputSchema.a: no value of enum is a valid "},
		{`"properties":{"a":{"type":["string","null"],"format":"date","enum":["today"]}}`, "InputSchema.a: no value of enum is a valid "},
		{`"properties":{"a":}`, "InputSchema: it is not valid JSON: invalid character '}'"},
	} {
		wantPanic(t, test.want, func() { byHand[json.RawMessage](&Server{}, `{"type":"object",`+test.members+`}`) })
	}
	for _, test := range []struct{ members, want string }{
		{`"properties":{"payload":true}`, `OutputSchema: properties.payload must be an object, got true`},
		{`"required":null`, "OutputSchema: required must be an array, got null"},
		{`"properties":[{}]`, "OutputSchema: properties must be an object"},
		{`"properties":{"a":{"type":"list"}}`, `OutputSchema: properties.a.type must name types of JSON Schema, got "list"`},
		{`"properties":{"a":{"type":null}}`, `OutputSchema: properties.a.type must be a string or an array, got null`},
	} {
		tool := Tool{Name: "x", OutputSchema: json.RawMessage(`{"type":"object",` + test.members + `}`)}
		wantPanic(t, test.want, func() { AddTool(&Server{}, tool, func(context.Context, none) (*Result, error) { return nil, nil }) })
	}
	const properties = `{"type":"object","properties":`
	wantPanics(t, []mistake{
		{`no field of mcp.ab takes the property "A"`, func() { byHand[ab](&Server{}, properties+`{"A":{"type":"string"},"b":{"type":"integer"}}}`) }},
		{`no field of mcp.ab takes the property "c"`, func() { byHand[*ab](&Server{}, properties+`{"a":{},"c":{}}}`) }},
		{`InputSchema.b: default: must be an integer, got "five"`, func() { byHand[ab](&Server{}, properties+`{"b":{"default":"five"}}}`) }},
		{`InputSchema.b: default: must be an integer, got 0.5`, func() { byHand[ab](&Server{}, properties+`{"b":{"type":"number","default":0.5}}}`) }},
		{`InputSchema.i8: default: must be at most 127, got 300`, func() { byHand[map[string]int8](&Server{}, properties+`{"i8":{"type":"integer","default":300}}}`) }},
		{`Elicit.a: default: is not valid`, func() {
			Elicit[struct {
				A netip.Addr `json:"a" default:"1.2.3"`
			}](t.Context(), "Where?")
		}},
		{`a form has strings, numbers, booleans and choices`, func() {
			Elicit[struct {
				A [][]string `json:"a" enum:"x,y"`
			}](t.Context(), "Which?")
		}},
		{`In.i: default: must be at most 9223372036854775807, got 9223372036854775808`, onServer(toolOf[struct {
			I int64 `json:"i" default:"9223372036854775808"`
		}])},
	})
	byHand[ab](&Server{}, properties+`{"a":{"default":null},"b":{"type":"number","default":5.0}}}`)
	// A default is converted as an argument is.
	byHand[ab](&Server{}, properties+`{"a":{"type":"integer","default":5},"b":{"type":"string","default":"5"}}}`)
	byHand[ab](&Server{}, properties+`{"a":{"type":["string","null"]},"b":{"type":"number"}},"required":["a"]}`)
	byHand[valIn](&Server{}, properties+`{"c":{}}}`) // which has an UnmarshalJSON
	byHand[json.RawMessage](&Server{}, properties+`{"a":{"type":"object","properties":{"b":{}},"required":["c"]},"n":{"type":"integer","minimum":0.5,"maximum":1e300},"s":{"type":"string","maxLength":10.0}}}`)
	AddTool(&Server{}, Tool{Name: "x", OutputSchema: json.RawMessage(properties + `{"a":{"enum":["x",""]}}}`)}, func(context.Context, none) (*Result, error) { return nil, nil })
}

type valIn struct{ A int }

func (v *valIn) UnmarshalJSON([]byte) error { return nil }

// A resource or prompt that no client accepts panics at registration, and
// nothing is added.
func TestInvalidResourcesAndPromptsPanic(t *testing.T) {
	s := &Server{}
	resource := func(r Resource) func() {
		r.URI, r.Name = cmp.Or(r.URI, "x:a"), cmp.Or(r.Name, "a")
		return func() { s.AddResource(r, texts("")) }
	}
	prompt := func(p Prompt) func() { return func() { s.AddPrompt(p, promptOf()) } }
	for _, uri := range []string{"noscheme", "/notes.txt", ":x", "1x:y", "x y:z", "{scheme}://a", "x://{", "x://{a", "x://{}", "x://{+}",
		"x://{a-b}", "x://{/a}", "x://{a*}", "x://{a,b}", "x://{{a}}", "x://{?q}"} {
		wantPanic(t, strconv.Quote(uri), resource(Resource{URI: uri}))
	}
	for what, uris := range invalidURIs {
		for _, uri := range uris {
			wantPanic(t, "mcp: resource "+strconv.Quote(uri)+": "+what, resource(Resource{URI: uri}))
		}
	}
	for what, uris := range map[string][]string{
		"a URI must not have":       {"x://a}", "x://{a}}", "x:{a} b", "note://my note/{id}", `x:{a}\{b}`},
		"in a URI, two hexadecimal": {"x:%{a}", "x:%{a}g", "x:{a}%"},
		"is not a host":             {"x://{a}:{b}:80/", "x://{a}:b{c}/", "x://[{a}]/{b}", "x://{a}@/"},
		"no URI matches {a}":        {"x:{a}{b}", "x:{+a}{b}", "x:{a}{+a}/{c}"},
		"no URI matches, because":   {"x:../{a}", "file:///a/./{b}", "x:{a}/..", "x:%2e%2E/{a}", "x:a/%2e?{a}", "x:{a}#."},
	} {
		for _, uri := range uris {
			wantPanic(t, what, resource(Resource{URI: uri}))
		}
	}
	wantPanics(t, []mistake{
		{`""`, func() { s.AddResource(Resource{Name: "n"}, texts("")) }},
		{`"x:y"`, func() { s.AddResource(Resource{URI: "x:y"}, texts("")) }},
		{`"x:r": a role, or an audience, must be user or assistant, got "model"`, resource(Resource{URI: "x:r", Annotations: Annotations{Audience: []Role{"user", "model"}}})},
		{`"x:r": a role, or an audience, must be user or assistant, got ""`, resource(Resource{URI: "x:r", Annotations: Annotations{Audience: []Role{""}}})},
		{`"x:p": annotations.priority must be from 0 to 1, got 5`, resource(Resource{URI: "x:p", Annotations: Annotations{Priority: 5}})},
		{`"x:{p}": annotations.priority must be from 0 to 1, got -0.1`, resource(Resource{URI: "x:{p}", Annotations: Annotations{Priority: -0.1}})},
		{`"x:y": annotations.lastModified must have a year of four digits, got 10000`,
			resource(Resource{URI: "x:y", Annotations: Annotations{LastModified: year10000}})},
		{`"x:n": annotations.priority must be from 0 to 1, got NaN`, resource(Resource{URI: "x:n", Annotations: Annotations{Priority: math.NaN()}})},
		{`"x:i": icons: theme must be light or dark, got "blue"`, resource(Resource{URI: "x:i", Icons: []Icon{{Src: "https://a"}, {Src: "https://a", Theme: "blue"}}})},
		{`tool "i": icons: theme must`, func() { addEmpty(s, Tool{Name: "i", Icons: []Icon{{Src: "https://a", Theme: "any"}}}) }},
		{`prompt "i": icons: theme must`, prompt(Prompt{Name: "i", Icons: []Icon{{Src: "https://a", Theme: "Dark"}}})},
		{`"x:m": Meta`, resource(Resource{URI: "x:m", Meta: map[string]any{"f": math.NaN()}})},
		{`prompt needs a name`, prompt(Prompt{})},
		{`prompt "p": an argum`, prompt(Prompt{Name: "p", Arguments: []PromptArgument{{}}})},
		{`prompt "q": an argum`, prompt(Prompt{Name: "q", Arguments: []PromptArgument{{Name: "a"}, {Name: "a"}}})},
		{`prompt "r": Meta`, prompt(Prompt{Name: "r", Meta: map[string]any{"f": func() {}}})},
	})
	for k, list := range s.lists {
		if len(list.byName) != 0 {
			t.Errorf("%d of the %s were added", len(list.byName), kindNames[k])
		}
	}
	for _, uri := range append(validURIs, "note://{id}", "note://é", "x:\u0080", "file:///tmp/日本.txt", "http://{host}:{port}/{+path}#{x}", "http://{u}@[{a}::1]:8{b}/", "logs://{date}T{time}", "x:..{a}", "x:{a}.") {
		resource(Resource{URI: uri})()
	}
}

// invalidURIs are URIs for which clients drop a list or a result, or that RFC 3986 does not allow, by
// the beginning of what is wrong with them.
var invalidURIs = map[string][]string{
	`a URI must not have " "`:   {"note://my note", "x:my note", "x: "},
	`a URI must not have "`:     {"x://a}b", "x:a<b", "x:a>b", `x:a"b`, `x:a\b`, "x:a^b", "x:a`b", "x:a|b", "x:\x7f", "x:\n", "x:\xff"},
	`in a URI, two hexadecimal`: {"x:a%", "x:a%4", "x:%zz", "x:%%41", "x://%e/"},
	`"2026-11-25T10:00:00" is not a host with or without a port, which a URI has after "//"`: {"logs://2026-11-25T10:00:00"},
	`"`: {"x://a:b", "x://a:-1/", "x://a:+1?q", "x://a:65536#f", "x://a:1:2", "x://::1/", "x://[::1", "x://[::1]a", "x://[a]", "x://[::g]", "x://a[b]", "x://[::1]@a", "x://:80", "x://u@", "x://u@:80/"},
}

var validURIs = []string{"file:///C:/a", "urn:x:y", "x:one", "x://", "x:///", "x://?q", "https://user@h:80/p?q#f", "https://u:p:w@h:", "http://[::1]:80/",
	"http://u@[::ffff:1.2.3.4]", "mailto:a@b", "data:text/plain;base64,aGk=", "x://%e9%20/%41", "x://a.b:65535", "x://h/2026-11-25T10:00:00",
	"x+y-z.1:!$&'()*+,;=-._~:@/?"}

// Serve returns an error if no client would accept the server's name or version.
func TestServeRefusesInvalidServer(t *testing.T) {
	tests := []struct {
		s    Server
		want string
	}{
		{Server{Name: "x"}, "Server.Version must be set"},
		{Server{Version: "1"}, "Server.Name and"},
		{Server{Name: "x", Version: "1", Extensions: map[string]any{"x": func() {}}}, "Server.Extensions: unsupported"},
		{Server{Name: "x", Version: "1", Extensions: map[string]any{"a": none{}, "x": nil}}, `Server.Extensions: the value of "x" must be a JSON object, got null`},
		{Server{Name: "x", Version: "1", Extensions: map[string]any{"x": true}}, `the value of "x" must be a JSON object, got true`},
		{Server{Name: "x", Version: "1", Extensions: map[string]any{"x": []none{}}}, `the value of "x" must be a JSON object, got []`},
		{Server{Name: "x", Version: "1", Extensions: map[string]any{"x": (*ab)(nil), "y": map[string]any{}}}, `the value of "x" must be a JSON object, got null`},
		{Server{Name: "x", Version: "1", Icons: []Icon{{Src: "https://a", Theme: "blue"}}}, `Server.Icons: icons: theme must be light or dark, got "blue"`},
	}
	for i := range tests {
		err := tests[i].s.Serve(t.Context(), strings.NewReader(""), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tests[i].want) {
			t.Errorf("got %v, want %q", err, tests[i].want)
		}
	}
}

// A tool that panics at registration is not added, and the Server is unchanged. Programs
// that register tools from files recover from the panic.
func TestFailedRegistrationChangesNothing(t *testing.T) {
	s := &Server{}
	said := diagnostics(s)
	add(s, "good", noText)
	meta := map[string]any{"f": func() {}}
	for _, f := range []func(){
		func() { addEmpty(s, Tool{Name: "good", Meta: meta}) },
		func() { addEmpty(s, Tool{Name: "a.b", Meta: meta}) },
		func() { s.AddPrompt(Prompt{Name: "p", Meta: meta}, promptOf()) },
		func() { s.AddResource(Resource{URI: "x:a", Name: "a", Meta: meta}, texts("")) },
		func() {
			s.AddMethod("tools/list", func(context.Context, json.RawMessage) (any, error) { return nil, nil })
		},
	} {
		wantPanic(t, "mcp: ", f)
	}
	if said.Len() > 0 {
		t.Errorf("reported %s", said)
	}
	inBubble(t, s, legacyPV, func(c *client) {
		c.play(`
			> 1 tools/list
			< 1 {"tools":[{"name":"good","inputSchema":{"type":"object","properties":{},"additionalProperties":false}}]}
			> 2 prompts/list
			< 2 {"prompts":[]}`)
	})
}

// A null in a schema by hand or in Meta is listed as it is.
func TestNullsAreListed(t *testing.T) {
	s := &Server{}
	addEmpty(s, Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object","properties":{},"default":null}`),
		Meta: map[string]any{"a": nil, "b": []any{nil}}})
	s.AddResource(Resource{URI: "x:a", Name: "a", Meta: map[string]any{"a": nil}}, texts(""))
	inBubble(t, s, legacyPV, func(c *client) {
		c.play(`
			> 1 tools/list
			< 1 {"tools":[{"name":"x","inputSchema":{"type":"object","properties":{},"default":null},"_meta":{"a":null,"b":[null]}}]}
			> 2 resources/list
			< 2 {"resources":[{"uri":"x:a","name":"a","_meta":{"a":null}}]}`)
	})
}

// year10000 cannot be written in RFC 3339.
var year10000 = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// What clients would drop a list for panics before the first session. Later it is reported and left
// out of the list, which stays usable, and it can be read and called all the same.
func TestInvalidItemsWhileServingAreLeftOut(t *testing.T) {
	s := &Server{}
	said := diagnostics(s)
	for _, list := range lists {
		list.add(s, "a", "")
	}
	blue := []Icon{{Src: "https://a", Theme: "blue"}}
	invalid := func() {
		s.AddResource(Resource{URI: "note://my note", Name: "a"}, texts("read"))
		s.AddResource(Resource{URI: "x:n", Name: "a", Annotations: Annotations{Audience: []Role{"model"}}}, texts("read"))
		s.AddResource(Resource{URI: "y:{v}}", Name: "a"}, texts("read"))
		s.AddResource(Resource{URI: "x:{v}{w}", Name: "a"}, texts("read"))
		s.AddResource(Resource{URI: "noscheme", Name: "a"}, texts("read"))
		s.AddResource(Resource{URI: "x:t{v}", Name: "a", Annotations: Annotations{LastModified: year10000}}, texts("read"))
		addEmpty(s, Tool{Name: "blue", Icons: blue})
		s.AddPrompt(Prompt{Name: "blue", Icons: blue}, promptOf())
	}
	wantPanic(t, "note://my note", invalid)
	const left = ": it is left out\n"
	const theme = `: icons: theme must be light or dark, got "blue"` + left
	const reported = `mcp: resource "note://my note": a URI must not have " ": escape it, as package net/url does` + left +
		`mcp: resource "x:n": a role, or an audience, must be user or assistant, got "model"` + left +
		`mcp: resource "y:{v}}": a URI must not have "}": escape it, as package net/url does` + left +
		`mcp: resource "x:{v}{w}": no URI matches {v}, because the next variable follows it without a text between them` + left +
		`mcp: resource "noscheme": a URI must begin with a scheme, such as "file:"` + left +
		`mcp: resource "x:t{v}": annotations.lastModified must have a year of four digits, got 10000` + left +
		`mcp: tool "blue"` + theme + `mcp: prompt "blue"` + theme
	for _, era := range eras {
		inBubble(t, s, era.version, func(c *client) {
			meta := ""
			if era.version == "" {
				meta = modernParams
			}
			said.Reset()
			invalid()
			synctest.Wait()
			if got := said.String(); got != reported {
				t.Errorf("reported %s\nwant %s", got, reported)
			}
			c.recv()
			for _, list := range lists {
				if names := c.list(list.method, list.key, meta); names != "a" {
					t.Errorf("%s: got %q", list.method, names)
				}
			}
			for _, uri := range []string{"note://my note", "x:n", "y:1}"} {
				if it, _ := s.findItem(resources, uri); it != nil {
					t.Errorf("%s can be read", uri)
				}
			}
			if got := c.ask(`1` + era.plus + ` tools/call {"name":"blue"}`); len(got) != 1 || !strings.Contains(got[0], `Unknown tool: blue`) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A second tool of one name replaces the first. Before the first session it is likely a copy
// whose name was not changed, and is reported. So are prompts, resources and methods. A tool that was removed is unknown.
func TestSecondToolOfOneName(t *testing.T) {
	s := &Server{}
	add := func(text string) {
		AddTool(s, Tool{Name: "a", Description: text}, func(context.Context, none) (string, error) { return text, nil })
	}
	add("first")
	add("second")
	s.RemoveTools("a")
	add("third")
	addOthers := func() {
		s.AddPrompt(Prompt{Name: "a"}, promptOf())
		s.AddResource(Resource{URI: "x:a", Name: "a"}, texts(""))
		s.AddResource(Resource{URI: "x:a/{v}", Name: "a"}, texts(""))
		s.AddMethod("x/a", func(context.Context, json.RawMessage) (any, error) { return nil, nil })
	}
	addOthers()
	addOthers()
	want := ""
	for _, item := range []string{`tool "a"`, `prompt "a"`, `resource "x:a"`, `resource "x:a/{v}"`, `method "x/a"`} {
		want += "mcp: " + item + " was added twice: the second replaces the first\n"
	}
	if got := reports(t, s); got != want {
		t.Errorf("reported %q", got)
	}
	addOthers() // a change
	inBubble(t, s, legacyPV, func(c *client) {
		c.play(`
			> 1 tools/list
			< 1 {"tools":[{"name":"a","description":"third","inputSchema":{"type":"object","properties":{},"additionalProperties":false}}]}`)
		add("fourth")
		c.play("< notifications/tools/list_changed", "> 2 call a", "< 2 said fourth")
		s.RemoveTools("a")
		s.RemoveTools("a") // changes nothing
		c.play("< notifications/tools/list_changed", "> 3 call a", "< 3! -32602 Unknown tool: a (there is none)")
	})
	add("fifth")
	add("sixth")
	if got := reports(t, s); got != "" {
		t.Errorf("reported %q", got)
	}
}

// Tools returns the tools as they are listed, in their order, and a copy of them.
func TestTools(t *testing.T) {
	s := &Server{}
	if got := s.Tools(); len(got) != 0 {
		t.Errorf("a Server without tools has %v", got)
	}
	enabled := func(context.Context) bool { return false }
	icons := []Icon{{Src: "https://a", Sizes: []string{"any"}}}
	meta := map[string]any{"list": []string{"a"}, "n": 5}
	AddTool(s, Tool{
		Name: "full", Title: "Full", Description: "All fields.", Icons: icons, Meta: meta,
		Annotations: ToolAnnotations{Title: "F", ReadOnlyHint: Yes, OpenWorldHint: No},
	}, func(context.Context, struct {
		N int `json:"n"`
	}) (struct {
		M int `json:"m"`
	}, error) {
		panic("is not called")
	})
	byHand := json.RawMessage(`{ "type": "object", "description": "by hand" }`)
	AddTool(s, Tool{Name: "hand", InputSchema: byHand}, echo[json.RawMessage])
	addEmpty(s, Tool{Name: "gone"})
	addEmpty(s, Tool{Name: "hidden", Enabled: enabled})
	addEmpty(s, Tool{Name: "last"})
	s.RemoveTools("gone")
	addEmpty(s, Tool{Name: "hidden", Description: "replaced", Enabled: enabled}) // in the place of the first
	addEmpty(s, Tool{Name: "gone"})                                              // at the end
	icons[0].Sizes[0], meta["list"].([]string)[0], byHand[0] = "changed", "changed", ' '

	got := s.Tools()
	names := ""
	for _, tool := range got {
		names += tool.Name + " "
	}
	if names != "full hand hidden last gone " {
		t.Fatalf("the tools are %s", names)
	}
	if got[2].Description != "replaced" || got[2].Enabled == nil || got[2].Enabled(t.Context()) || got[3].Enabled != nil {
		t.Errorf("Enabled is not kept: %v", got[2:4])
	}
	// All that is listed is the JSON of the tools, and what the caller changes is in no later result.
	listed := func() string {
		all := slices.DeleteFunc(s.Tools(), func(tool Tool) bool { return tool.Enabled != nil })
		raw, err := marshal(map[string]any{"tools": all})
		if err != nil {
			t.Error(err)
		}
		return string(raw)
	}
	list := listed()
	for _, part := range []string{`"list":["a"],"n":5`, `"sizes":["any"]`, `"properties":{"m":{"type":"integer"}}`, `"readOnlyHint":true`} {
		if !strings.Contains(list, part) {
			t.Errorf("no %s in %s", part, list)
		}
	}
	clear(got[0].InputSchema)
	clear(got[0].OutputSchema)
	clear(got[0].Icons[0].Sizes)
	clear(got[0].Meta["list"].([]any))
	clear(got[0].Meta)
	clear(got[1:])
	if again := listed(); again != list {
		t.Errorf("a result was changed, and then the next is %s, not %s", again, list)
	}
	inBubble(t, s, legacyPV, func(c *client) {
		c.play("> 1 tools/list", "< 1 "+list)
		// After the first session began, a tool with an invalid icon is left out.
		addEmpty(s, Tool{Name: "last", Icons: []Icon{{Src: "https://a", Theme: "blue"}}})
		c.play("< notifications/tools/list_changed")
		if n := len(s.Tools()); n != 4 {
			t.Errorf("there are %d tools", n)
		}
	})
}

// Tools may be called while tools are added, removed and listed.
func TestToolsWhileTheyChange(t *testing.T) {
	s := &Server{}
	addEmpty(s, Tool{Name: "first"})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			name := fmt.Sprint("t", i)
			for range 50 {
				addEmpty(s, Tool{Name: name, Meta: map[string]any{"a": 1}})
				found := false
				for j, tool := range s.Tools() {
					found = found || tool.Name == name
					if (tool.Name == "first") != (j == 0) || tool.InputSchema == nil {
						t.Errorf("tool %d is %v", j, tool)
					}
					clear(tool.InputSchema)
					clear(tool.Meta)
				}
				if !found {
					t.Errorf("%s was added and is missing", name)
				}
				s.RemoveTools(name)
			}
		})
	}
	wg.Wait()
}

// Reports about a Server wait until a session prints them, each once. No more than a thousand wait.
func TestReportsWaitForASession(t *testing.T) {
	s := &Server{Name: "demo", Version: "1.0.0", Instructions: strings.Repeat("x", 2049)}
	said := diagnostics(s)
	report := func(n int) {
		for range n {
			addEmpty(s, Tool{Name: "a.b"})
			s.RemoveTools("a.b")
		}
	}
	check := func(t *testing.T, n int, last string) {
		t.Helper()
		synctest.Wait()
		got := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(got) != n || !strings.HasPrefix(got[len(got)-1], last) {
			t.Errorf("%d reports, the last is %s", len(got), got[len(got)-1])
		}
		said.Reset()
	}
	const name = `mcp: tool "a.b": its name should have at most 64 of`
	synctest.Test(t, func(t *testing.T) {
		report(maxReports + 5)
		if said.Len() > 0 {
			t.Errorf("reported before a session: %.200s", said)
		}
		first := serve(t, s)
		synctest.Wait()
		second := serve(t, s)
		check(t, maxReports+1, "mcp: 6 more reports were dropped")
		report(1)
		check(t, 1, name)
		first.end()
		report(1) // the session that remains prints it
		check(t, 1, name)
		second.end()
		report(2)
		check(t, 1, "")
	})
	if got := reports(t, s); strings.Count(got, "\n") != 2 {
		t.Errorf("reported %q", got)
	}
}

// Registration copies what it is given. A caller may reuse its slices and maps.
func TestRegistrationCopiesItsArguments(t *testing.T) {
	s := &Server{}
	icons, audience := []Icon{{Src: "https://a", Sizes: []string{"any"}}}, []Role{RoleUser}
	notes := Annotations{Audience: audience, Priority: 0.5}
	arguments := []PromptArgument{{Name: "a"}}
	complete := map[string]CompleteFunc{"v": words("first")}
	addEmpty(s, Tool{Name: "one", Icons: icons})
	s.AddResource(Resource{URI: "x:one", Name: "one", Icons: icons, Annotations: notes}, texts(""))
	s.AddResource(Resource{URI: "t:one/{v}", Name: "one", Complete: complete}, texts(""))
	s.AddPrompt(Prompt{Name: "one", Arguments: arguments, Icons: icons}, promptOf())
	icons[0].Src, icons[0].Sizes[0], audience[0] = "https://b", "1x1", RoleAssistant
	arguments[0].Name = "b"
	complete["v"] = words("second")
	const icon = `"icons":[{"src":"https://a","sizes":["any"]}]`
	inBubble(t, s, legacyPV, func(c *client) {
		c.play(`
			> 1 tools/list
			< 1 {"tools":[{"name":"one","inputSchema":{"type":"object","properties":{},"additionalProperties":false},` + icon + `}]}
			> 2 resources/list
			< 2 {"resources":[{"uri":"x:one","name":"one","annotations":{"audience":["user"],"priority":0.5},` + icon + `}]}
			> 3 prompts/list
			< 3 {"prompts":[{"name":"one","arguments":[{"name":"a"}],` + icon + `}]}
			> 4 completion/complete {"ref":{"type":"ref/resource","uri":"t:one/{v}"},"argument":{"name":"v","value":""}}
			< 4 {"completion":{"values":["first"],"total":1,"hasMore":false}}`)
	})
}

// One line for each tool reports what is not enforced of a schema by hand, shapes that some
// providers refuse, and tags of In that have no effect.
func TestSchemaIsReported(t *testing.T) {
	const x, refuse, combined = `mcp: tool "x": InputSchema`, ": some providers refuse that", ": allOf, anyOf or oneOf is at the top: some providers refuse that"
	properties := func(a string) string { return `{"type":"object","properties":{"a":{` + a + `}}}` }
	nested := func(n int, before, after string) string {
		return `{"type":"object","properties":{"a":` + strings.Repeat(before, n) + `{"type":"string"}` + strings.Repeat(after, n) + "}}"
	}
	s := &Server{}
	check := func(want string) {
		t.Helper()
		if got := reports(t, s); got != want && got != want+"\n" || len(got) > 201 {
			t.Errorf("reported %q, want %q", got, want)
		}
		s.RemoveTools("x")
	}
	for _, test := range []struct{ schema, want string }{
		{`{"type":"object"}`, x + ": properties is missing" + refuse},
		{`{"type":"object","properties":{},"allOf":[{"type":"object"}]}`, x + combined + " (and 1 more)"},
		{`{"type":"object","properties":{},"anyOf":[{}],"oneOf":[true]}`, x + combined + " (and 2 more)"},
		{`{"type":"object","properties":{"a":{"type":"array"}}}`, x + ".a: items is missing" + refuse},
		{`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"array"}}}}}}`, x + ".a[].b: items is missing" + refuse},
		{`{"type":"object","properties":{},"additionalProperties":{"type":"array"}}`, x + "[]: items is missing" + refuse},
		{`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}]},"b":{"$ref":"#","not":{}}}}`, x + ".a: anyOf is not enforced (and 2 more)"},
		{`{"type":"object","properties":{"a":{"type":"number","multipleOf":2}}}`, x + ".a: multipleOf is not enforced"},
		{`{"type":"object","properties":{"a":{"type":"string","pattern":"x","minimum":1}}}`, x + ".a: pattern is not enforced (and 1 more)"},
		{`{"type":"object","properties":{"a":{"type":["array","string"],"items":{"type":"integer"}}}}`, x + ".a: type is a list" + refuse},
		{`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{}],"items":{"type":"integer"}}}}`, x + ".a: prefixItems is not enforced (and 1 more)"},
		{properties(`"type":["string","null"]`), x + ".a: type is a list" + refuse},
		{properties(`"type":["string"]`), x + ".a: type is a list" + refuse},
		{properties(`"description":"x"`), x + ".a: type is missing" + refuse},
		{properties(`"enum":["x","y"]`), x + ".a: type is missing" + refuse},
		{properties(`"type":"array","items":{}`), x + ".a[]: type is missing" + refuse},
		{properties(`"type":"array","items":true`), x + ".a: items is missing" + refuse},
		{properties(`"type":"object","additionalProperties":{}`), x + ".a[]: type is missing" + refuse},
		{properties(`"type":"integer","enum":[1,2]`), x + ".a: enum has values that are not strings" + refuse},
		{properties(`"type":"string","enum":["x",null,2]`), x + ".a: enum has values that are not strings" + refuse},
		{properties(`"type":"boolean","enum":[true]`), x + ".a: enum has values that are not strings" + refuse},
		{properties(`"type":"string","const":"x"`), x + ".a: const is used" + refuse},
		{properties(`"type":"object","properties":{},"required":["b","c"]`), x + ".a: required names b, which properties lacks" + refuse + " (and 1 more)"},
		{`{"type":"object","properties":{},"required":["b"]}`, x + ": required names b, which properties lacks" + refuse},
		{properties(`"type":"string","properties":{}`), x + ".a: properties is beside the type string" + refuse},
		{properties(`"type":"integer","maximum":9223372036854775807`), x + ".a: a bound is above 2^53" + refuse},
		{properties(`"type":"number","minimum":-1e300`), x + ".a: a bound is above 2^53" + refuse},
		{properties(`"type":"string","maxLength":9007199254740994`), x + ".a: a bound is above 2^53" + refuse},
		{properties(`"type":"integer","maximum":9007199254740992`), ""},
		{properties(`"type":"string","contentEncoding":"base64"`), x + ".a: contentEncoding is used" + refuse},
		{properties(`"anyOf":[{"type":"string"},{"type":["integer","null"]},{"type":"array"}]`), x + ".a: anyOf is not enforced"},
		{nested(8, `{"type":"array","items":`, "}"), ""},
		{nested(9, `{"type":"array","items":`, "}"), x + ".a" + strings.Repeat("[]", 9) + ": there are more than 10 levels" + refuse},
		{nested(96, `{"type":"object","additionalProperties":`, "}"), x + ".a" + strings.Repeat("[]", 9) + ": there are more than 10 levels" + refuse},
		{nested(9, `{"type":"object","properties":{"\n":`, "}}"), x + ".a" + strings.Repeat(`."\n"`, 9) + ": there are more than 10 levels" + refuse},
		{`{"type":"object","properties":{"` + strings.Repeat("a", 64) + `":{"type":"object","properties":{"` + strings.Repeat("b", 200) + `":{"type":"string","if":{},"then":{}}}}}}`,
			x + "." + strings.Repeat("a", 64) + "." + strings.Repeat("b", 180-len(x)-66) + " (and 1 more)"},
		{`{"$schema":"x","$id":"x","$comment":"x","$defs":{"b":{"anyOf":[{}]}},"title":"x","description":"x","examples":[1],"type":"object","x-order":1,"properties":{` +
			`"a":{"type":"string","format":"uuid","deprecated":true,"readOnly":true,"writeOnly":true,"default":"a","minLength":1,"contentMediaType":"text/plain"},` +
			`"b":{"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2},"c":{"$comment":"","type":"string","enum":["x"]},"d":{"type":"object","additionalProperties":true}}}`, ""},
	} {
		byHand[json.RawMessage](s, test.schema)
		check(test.want)
	}
	byFields := func(s *Server) { byHand[struct{ F foreignTags1 }](s, openSchema) }
	for _, add := range []func(*Server){toolOf[map[string]any], toolOf[none], out(foreignTags1{}, nil), byFields} {
		add(s)
		check("")
	}
	toolOf[struct {
		L []foreignTags1 `json:"l"`
		R string         `pattern:"x"`
	}](s)
	check(`mcp: tool "x": In.L[].N: the tag min has no effect: write minimum, minLength or minItems (and 4 more)`)
	toolOf[struct {
		A string `minlength:"1" Maximum:"2"`
		B string `jsonSchema:"what" json_schema:"what"`
		C string `enums:"a,b" json:"c" jsonschema:"right: \"x\"" enum:"x"`
		D string `jsonschema_description:"what"`
		E string `mcp:"what" doc:"what"`
		F string `Json:"f" Default:"" xml:"f" validate:"x"`
		G int    `minimum:"1" maximum:"18446744073709551615"`
	}](s)
	check(`mcp: tool "x": In.A: the tag minlength has no effect: write minLength (and 8 more)`)
	toolOf[struct {
		G int    `maximum:"18446744073709551615"`
		H string `jsonschema:"a word that ends a value is no tag:title:" json:"h"`
		I string `json:"i" jsonschema:"it begins with title:"`
	}](s)
	check(`mcp: tool "x": In.G: a bound is above 2^53` + refuse)
	toolOf[struct {
		S string `json:"s" desc:" what \"s\" is for min:" enum:"x"`
	}](s)
	check(`mcp: tool "x": In.S: the tag desc has no effect: write jsonschema`)
	toolOf[struct {
		S string `json:"s" pattern:"^x"`
	}](s)
	check(`mcp: tool "x": In.S: the tag pattern has no effect: write it in jsonschema, in words`)
	toolOf[foreignTags1](s)
	check(`mcp: tool "x": In.N: the tag min has no effect: write minimum, minLength or minItems (and 3 more)`)
}

// Before it serves, and while it does, a Server reports what the author of an item cannot see in the first session: what
// some hosts do not show, tell apart or read, and what has no effect. It does so in one line for each item.
func TestItemsAreReported(t *testing.T) {
	tool := func(names ...string) func(*Server) {
		return func(s *Server) {
			for _, name := range names {
				addEmpty(s, Tool{Name: name})
			}
		}
	}
	described := func(description string) func(*Server) {
		return func(s *Server) { addEmpty(s, Tool{Name: "x", Description: description}) }
	}
	resource := func(uri string, variables ...string) func(*Server) {
		return func(s *Server) {
			complete := map[string]CompleteFunc{}
			for _, name := range variables {
				complete[name] = words("")
			}
			s.AddResource(Resource{URI: uri, Name: "a", Complete: complete}, texts(""))
		}
	}
	similar := func(a, b string) string {
		return "mcp: tool " + strconv.Quote(a) + ": some hosts do not tell its name from " + strconv.Quote(b)
	}
	lacks := func(field, tag, keyword string) string {
		return `mcp: tool "x": In.` + field + ": the tag " + tag + " has no effect beside InputSchema, which lacks " + keyword
	}
	const escape = ": write its URI so, because some clients escape it and then cannot read it"
	type tagged struct {
		A string   `json:"a" jsonschema:"what" enum:"x,y" default:"x"`
		B int      `json:"b" minimum:"1" maximum:"9"`
		C []string `json:"c" enum:"x,y" maxItems:"2"`
		D string   `json:"d" format:"date" minLength:"1" maxLength:"9"`
		E string   `json:"e,omitempty"`
	}
	for _, test := range []struct {
		name string
		add  func(*Server)
		want string // "" for no report
	}{
		{"a long description", described(strings.Repeat("é", 2049)),
			`mcp: tool "x": its description has 2049 characters: Claude Code shows the model the first 2,048`},
		{"a description of the greatest length", described(strings.Repeat("é", 2048)), ""},
		{"case", tool("readFile", "readfile"), similar("readfile", "readFile")},
		{"signs", tool("read_file", "other", "read-file"), similar("read-file", "read_file")},
		{"signs and case", tool("a-b1", "A_B1_"), similar("A_B1_", "a-b1")},
		{"a dot", tool("a1", "a.1"), `mcp: tool "a.1": its name should have at most 64 of A-Z a-z 0-9 _ -, and begin with a letter or _: some providers refuse any other (and 1 more)`},
		{"three", tool("ab", "a_b", "a-b"), similar("a_b", "ab") + "\n" + similar("a-b", "a_b")},
		{"one name twice", tool("a_b", "a_b"), `mcp: tool "a_b" was added twice: the second replaces the first`},
		{"names that are told apart", tool("a1", "a11", "a_12", "b", "B1"), ""},
		{"a similar tool was removed", func(s *Server) {
			tool("a_b")(s)
			s.RemoveTools("a_b")
			tool("ab")(s)
		}, ""},
		{"prompts are told apart", func(s *Server) {
			s.AddPrompt(Prompt{Name: "ab"}, promptOf())
			s.AddPrompt(Prompt{Name: "AB"}, promptOf())
		}, ""},
		{"no variable", resource("x:{a}/{+b}", "a", "c", "b", "d"), `mcp: resource "x:{a}/{+b}": Complete has "c", which is not a variable of the URI (and 1 more)`},
		{"a variable in another case", resource("x:{path}", "Path"), `mcp: resource "x:{path}": Complete has "Path", which is not a variable of the URI`},
		{"no template", resource("x:a", "a"), `mcp: resource "x:a": Complete has "a", which is not a variable of the URI`},
		{"letters", resource("note://ü"), "mcp: resource note://%C3%BC" + escape},
		{"letters of Japanese", resource("file:///tmp/日本.txt"), "mcp: resource file:///tmp/%E6%97%A5%E6%9C%AC.txt" + escape},
		{"letters in a template", resource("x:é%20/{id}😀"), "mcp: resource x:%C3%A9%20/{id}%F0%9F%98%80" + escape},
		{"escaped letters", resource("note://%C3%BC"), ""},
		{"tags", func(s *Server) { byHand[tagged](s, openSchema) }, lacks("A", "jsonschema", "description") + " (and 9 more)"},
		{"one tag", func(s *Server) {
			byHand[struct {
				N int `json:"n" maximum:"9"`
			}](s, `{"type":"object","properties":{"n":{"type":"integer","description":"what"}}}`)
		}, lacks("N", "maximum", "maximum")},
		{"a tag of a field that is not listed", func(s *Server) {
			byHand[struct {
				N int `json:"n" default:"9"`
			}](s, `{"type":"object","properties":{}}`)
		}, lacks("N", "default", "default")},
		{"the schema of the type", func(s *Server) { byHand[tagged](s, string(SchemaOf[tagged]())) }, ""},
		{"no tags", func(s *Server) { byHand[ab](s, openSchema) }, ""},
	} {
		want := strings.TrimPrefix(test.want+"\n", "\n")
		s := &Server{}
		test.add(s)
		if got := reports(t, s); got != want {
			t.Errorf("%s: reported %q, want %q", test.name, got, want)
		}
		if strings.Contains(want, "twice") { // while it serves, this is a change
			want = ""
		}
		s = &Server{}
		said := diagnostics(s)
		inBubble(t, s, legacyPV, func(*client) { test.add(s) })
		if got := said.String(); got != want {
			t.Errorf("%s while it serves: reported %q, want %q", test.name, got, want)
		}
	}
}

type foreignTags1 struct {
	N int    `min:"1" max:"2"`
	S string `validate:"x" yaml:"s" description:"what" required:"true"`
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
		X string `json:"X"` // is used, because the name is in the tag
		Y int
	}
	right   struct{ X int }
	pointer struct{ *point }
	custom  struct{}
)

func (custom) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// schemaCases are types and their schemas.
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
		L []string `json:"l" enum:"x,y" minItems:"1" maxItems:"2" default:"[\"x\"]"`
		M string   `json:"m" minLength:"0" maxLength:"0" format:"email"`
		D []int    `json:"d,omitempty" jsonschema:"days"`
	}], `{"type":"object","properties":{"s":{"type":"string","description":"one, or \"two\"","default":"a","enum":["a","b"]},"n":{"type":"integer","minimum":1,"maximum":2},` +
		`"f":{"type":"number","minimum":-0.5,"maximum":1e3},"l":{"type":"array","default":["x"],"minItems":1,"maxItems":2,"items":{"type":"string","enum":["x","y"]}},` +
		`"m":{"type":"string","minLength":0,"maxLength":0,"format":"email"},"d":{"type":"array","description":"days","items":{"type":"integer"}}},"required":["n","f","m"],"additionalProperties":false}`},
	{"small integers", SchemaOf[struct {
		B int16  `json:"b"`
		C int32  `json:"c"`
		D int64  `json:"d"`
		E uint8  `json:"e"`
		F uint16 `json:"f"`
		G uint32 `json:"g"`
		I int8   `json:"i" minimum:"0"`
		J []int8 `json:"j"`
	}], `{"type":"object","properties":{"b":{"type":"integer","minimum":-32768,"maximum":32767},"c":{"type":"integer","minimum":-2147483648,"maximum":2147483647},` +
		`"d":{"type":"integer"},"e":{"type":"integer","minimum":0,"maximum":255},"f":{"type":"integer","minimum":0,"maximum":65535},` +
		`"g":{"type":"integer","minimum":0,"maximum":4294967295},"i":{"type":"integer","minimum":0,"maximum":127},` +
		`"j":{"type":"array","items":{"type":"integer","minimum":-128,"maximum":127}}},"required":["b","c","d","e","f","g","i","j"],"additionalProperties":false}`},
	{"text and bytes", SchemaOf[struct {
		T time.Time     `json:"t"`
		B []byte        `json:"b"`
		P []byte        `json:"p" jsonschema:"the picture"`
		Q []byte        `json:"q" jsonschema:"a PNG in Base64"`
		L [][]byte      `json:"l"`
		X blob          `json:"x"` // has a text form, so it is not base64
		A netip.Addr    `json:"a"`
		D time.Duration `json:"d"`
	}], `{"type":"object","properties":{"t":{"type":"string","format":"date-time"},"b":{"type":"string","description":"base64"},` +
		`"p":{"type":"string","description":"the picture (base64)"},"q":{"type":"string","description":"a PNG in Base64 (base64)"},` +
		`"l":{"type":"array","items":{"type":"string","description":"base64"}},"x":{"type":"string"},` +
		`"a":{"type":"string"},"d":{"type":"integer"}},"required":["t","b","p","q","l","x","a","d"],"additionalProperties":false}`},
	{"lists and maps", SchemaOf[struct {
		P []*point         `json:"p"`
		M map[string][]int `json:"m"`
		Q point            `json:"q"` // the same type again
	}], `{"type":"object","properties":{"p":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}},` +
		`"m":{"type":"object","properties":{},"additionalProperties":{"type":"array","items":{"type":"integer"}}},` +
		`"q":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}},"required":["p","m","q"],"additionalProperties":false}`},
	{"embedding", SchemaOf[struct{ base }],
		`{"type":"object","properties":{"id":{"type":"string"},"-":{"type":"boolean"}},"required":["id","-"],"additionalProperties":false}`},
	{"names in conflict", SchemaOf[struct {
		base
		left
		right
		ID int `json:"id"` // the shallowest field is used
	}], `{"type":"object","properties":{"-":{"type":"boolean"},"X":{"type":"string"},"Y":{"type":"integer"},"id":{"type":"integer"}},"required":["-","X","Y","id"],"additionalProperties":false}`},
	{"recursion", SchemaOf[tree], `{"type":"object","properties":{"name":{"type":"string"},"kids":{"type":"array","items":{"type":"object","properties":{}}},"up":{"type":"object","properties":{}},` +
		`"more":{"type":"object","properties":{},"additionalProperties":{"type":"object","properties":{}}}},"required":["name"],"additionalProperties":false}`},
	{"lists in lists", SchemaOf[rows], `{"type":"array","items":{"type":"object","properties":{"Kids":{"type":"array","items":{"type":"array","items":{"type":"object","properties":{}}}}},"required":["Kids"],"additionalProperties":false}}`},
	{"free-form", SchemaOf[struct {
		F map[string]any            `json:"f" jsonschema:"anything"`
		L []map[string]any          `json:"l,omitempty"`
		M map[string]map[string]any `json:"m,omitempty"`
	}], `{"type":"object","properties":{"f":{"type":"object","description":"anything","properties":{}},"l":{"type":"array","items":{"type":"object","properties":{}}},` +
		`"m":{"type":"object","properties":{},"additionalProperties":{"type":"object","properties":{}}}},"required":["f"],"additionalProperties":false}`},
	{"embedded pointer", SchemaOf[struct {
		*embeddedBase     // of an unexported type, which is valid in a result
		X             int `json:"x"`
	}], `{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}`},
	{"a map", SchemaOf[map[string]string], `{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`},
	{"a pointer", SchemaOf[**point], `{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}`},
	{"a list", SchemaOf[[]string], `{"type":"array","items":{"type":"string"}}`},
}

// Each type has the schema of the table, byte for byte, which every model provider accepts.
func TestSchemaOf(t *testing.T) {
	for _, tt := range schemaCases {
		if got := tt.schema(); string(got) != tt.want { // including the order of fields
			t.Errorf("%s: got  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// ofType tries arguments with a tool of In and with one that has the same schema by hand, and
// returns the schema.
func ofType[In any](t *testing.T, trials ...trial) string {
	t.Helper()
	s := &Server{}
	toolOf[In](s)
	try(t, s, trials...)
	tool, _ := callX(t, s)
	return hand[In](string(tool.InputSchema))(t, trials...)
}

// derived is ofType for a schema that says all about In. A tool that has it by hand and reads raw
// JSON must get the same, unless the Go type itself refuses the arguments.
func derived[In any](t *testing.T, trials ...trial) string {
	t.Helper()
	schema, raw := ofType[In](t, trials...), &Server{}
	AddTool(raw, Tool{Name: "x", InputSchema: json.RawMessage(schema)}, func(_ context.Context, args json.RawMessage) (string, error) {
		var in In
		if err := json.Unmarshal(args, &in); err != nil {
			return "", err
		}
		text, err := json.Marshal(in)
		return string(text), err
	})
	try(t, raw, slices.DeleteFunc(slices.Clone(trials), func(tr trial) bool {
		return namesGoBound(tr.want) || strings.Contains(tr.want, "is not valid") || strings.Contains(tr.want, "base64")
	})...)
	return schema
}

// namesGoBound reports whether a fault names a bound of a Go type that no schema shows.
func namesGoBound(fault string) bool {
	return strings.Contains(fault, "922337203685477580") || strings.Contains(fault, "18446744073709551615") ||
		strings.Contains(fault, "at most 3.4028235e38") || strings.Contains(fault, "at least -3.4028235e38") || strings.Contains(fault, "1.7976931348623157e308")
}

// hand returns a function that tries arguments with a tool that has a schema written by hand.
func hand[In any](schema string) func(t *testing.T, trials ...trial) string {
	return func(t *testing.T, trials ...trial) string {
		t.Helper()
		s := &Server{}
		byHand[In](s, schema)
		try(t, s, trials...)
		if _, raw := any(*new(In)).(json.RawMessage); raw { // what is wrong is wrong for other types too
			isRight := func(tr trial) bool { return tr.want[0] != '!' }
			for _, add := range []func(*Server, string){byHand[map[string]any], byHand[any]} {
				s := &Server{}
				add(s, schema)
				try(t, s, slices.DeleteFunc(slices.Clone(trials), isRight)...)
			}
		}
		return schema
	}
}

const (
	openSchema   = `{"type":"object","properties":{}}`
	objectSchema = `{"type":"object"}` // which some providers refuse
)

type colour string

func (colour) String() string { return "painted" }

type twice[T any] struct{ A, B T }

// The schema of a type has a bounded size.
func TestSchemaSizeIsBounded(t *testing.T) {
	type sixteen[T any] = twice[twice[twice[twice[T]]]]
	got := SchemaOf[sixteen[sixteen[sixteen[sixteen[none]]]]]()
	if !json.Valid(got) || len(got) < 32<<10 || len(got) > 36<<10 {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
}

type nest[T any] struct {
	V T `json:"v"`
}

// A schema has at most ten levels, and arguments are checked by the schema that is listed: where an
// object was cut, also because its type contains itself or because the schema is large, all that
// fits into the Go type is accepted.
func TestSchemaHasTenLevels(t *testing.T) {
	type (
		four[T any] = nest[nest[nest[nest[T]]]]
		leaf        struct {
			N int `json:"n"`
		}
		lists struct {
			N int     `json:"n,omitempty"`
			L [][]int `json:"l,omitempty" maxItems:"1"`
		}
	)
	const free, number = `{"type":"object","properties":{}}`, `"n":{"type":"integer"}`
	levels := func(n int, inner string) string {
		return strings.Repeat(`{"type":"object","properties":{"v":`, n) + inner + strings.Repeat(`},"required":["v"],"additionalProperties":false}`, n)
	}
	inside := func(n int, inner string) string { return strings.Repeat(`{"v":`, n) + inner + strings.Repeat("}", n) }
	at := func(n int) string { return "! " + strings.Repeat("v.", n) }
	for _, test := range []struct{ got, want string }{
		{ofType[nest[four[four[int]]]](t, trial{inside(9, `"5"`), inside(9, "5")}, trial{inside(9, "{}"), at(8) + "v must be an integer, got {}"}),
			levels(9, `{"type":"integer"}`)},
		{ofType[four[four[leaf]]](t, trial{inside(8, `{"n":"5"}`), inside(8, `{"n":5}`)}, trial{inside(8, `{"x":1}`), at(8) + "x is unknown (there is n); v.v.v.v.v.v.v.v.n is required"}),
			levels(8, `{"type":"object","properties":{`+number+`},"required":["n"],"additionalProperties":false}`)},
		{ofType[nest[four[four[leaf]]]](t, trial{inside(9, `{"n":"5"}`), inside(9, `{"n":5}`)}, trial{inside(9, `{"x":1}`), inside(9, `{"n":0}`)},
			trial{inside(9, "5"), at(8) + "v must be an object, got 5"}), levels(9, free)},
		{ofType[nest[four[four[struct {
			N int `enum:"x"` // which has no effect here
		}]]]](t), levels(9, free)},
		{ofType[nest[four[four[none]]]](t, trial{inside(9, `{"x":1}`), inside(9, "{}")}), levels(9, free)},
		{ofType[nest[nest[four[lists]]]](t, trial{inside(6, `{"l":[[],[]]}`), at(6) + "l must have a length of at most 1, got 2"}),
			levels(6, `{"type":"object","properties":{`+number+`,"l":{"type":"array","maxItems":1,"items":{"type":"array","items":{"type":"integer"}}}},"additionalProperties":false}`)},
		{ofType[nest[nest[nest[four[lists]]]]](t, trial{inside(7, `{"l":[[1],["2"]]}`), inside(7, `{"l":[[1],[2]]}`)}, trial{inside(7, `{"x":1,"n":null}`), inside(7, "{}")}), levels(7, free)},
		{ofType[four[four[lists]]](t), levels(8, free)},
		{ofType[nest[four[four[[]describedOnly]]]](t), levels(8, free)},
		{ofType[nest[nest[nest[four[map[string][]leaf]]]]](t, trial{inside(7, `{"k":[{"n":1}]}`), inside(7, `{"k":[{"n":1}]}`)}, trial{inside(7, `{"k":[{}]}`), inside(7, `{"k":[{"n":0}]}`)},
			trial{inside(7, `{"k":[5]}`), at(7) + "k[0] must be an object, got 5"}),
			levels(7, `{"type":"object","properties":{},"additionalProperties":{"type":"array","items":`+free+`}}`)},
		{ofType[four[four[map[string][]int]]](t, trial{inside(8, `{"k":[1]}`), inside(8, `{"k":[1]}`)}), levels(8, free)},
		{ofType[four[four[map[string]int]]](t), levels(8, `{"type":"object","properties":{},"additionalProperties":{"type":"integer"}}`)},
		{ofType[nest[four[four[map[string]int]]]](t), levels(9, free)},
		{string(SchemaOf[[][][][][][][][][][]int]()), strings.Repeat(`{"type":"array","items":`, 10) + `{"type":"integer"}` + strings.Repeat("}", 10)},
		// Recursion.
		{ofType[nest[[]leafTree]](t, trial{`{"v":[{"n":1,"kids":[{"x":1},{"n":"2","kids":[{}]}]}]}`, `{"v":[{"n":1,"kids":[{"n":0},{"n":2,"kids":[{"n":0}]}]}]}`},
			trial{`{"v":[{"x":1}]}`, "! v[0].x is unknown (there is n, kids); v[0].n is required"}, trial{`{"v":[{"n":1,"kids":[5]}]}`, "! v[0].kids[0] must be an object, got 5"}),
			levels(1, `{"type":"array","items":{"type":"object","properties":{`+number+`,"kids":{"type":"array","items":`+free+`}},"required":["n"],"additionalProperties":false}}`)},
	} {
		if test.got != test.want {
			t.Errorf("got  %s\nwant %s", test.got, test.want)
		}
	}
	// The last of these objects begins after 32 KiB.
	fields := make([]reflect.StructField, 20)
	for i := range fields {
		fields[i] = reflect.StructField{Name: "F" + strconv.Itoa(i), Type: reflect.TypeFor[leaf](), Tag: `json:",omitempty"`}
		if i < 19 {
			fields[i].Tag += reflect.StructTag(` jsonschema:"` + strings.Repeat("x", 1610) + `"`)
		}
	}
	s, d := derive(reflect.StructOf(fields), "In", forArguments)
	text := d.render(s, "")
	listed := (&schemaParser{why: forArguments}).parse(text, "x", anything)
	check := func(args string) error {
		_, err := read([]byte(args), fromSchema, []*schema{listed})
		return err
	}
	if !strings.HasSuffix(string(text), `"F19":`+free+`},"additionalProperties":false}`) || check(`{"F17":{}}`) == nil || check(`{"F19":{"x":1}}`) != nil {
		t.Errorf("%d bytes: %s", len(text), text[len(text)-200:])
	}
}

type leafTree struct {
	N    int        `json:"n"`
	Kids []leafTree `json:"kids,omitempty"`
}

type (
	node struct {
		Kids []node           `json:"kids,omitempty" jsonschema:"what is below" maxItems:"2" default:"[]"`
		Up   *node            `json:"up,omitempty" jsonschema:"what is above"`
		More map[string]*node `json:"more,omitempty" jsonschema:"others"`
	}
	needsItself struct {
		Next *needsItself `json:"next" default:"{}"`
	}
	rows []struct{ Kids []rows }
)

// The tags of a recursive type are checked and used like those of other types. A default inside
// of itself is not filled in.
func TestTagsOfRecursiveTypes(t *testing.T) {
	for _, got := range []string{string(SchemaOf[node]()), string(SchemaOf[[]node]())} {
		for _, want := range []string{"what is below", `"maxItems":2`, "what is above", "others"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
	}
	derived[needsItself](t, trial{`{}`, `{"next":{"next":null}}`}, trial{`{"next":{}}`, `{"next":{"next":null}}`})
	derived[node](t, trial{`{"kids":[{}],"up":{}}`, `{"kids":[{}],"up":{}}`}, trial{`{"kids":[{},{},{}]}`, "! kids must have a length of at most 2, got 3"})
}

type (
	paging struct {
		Limit int `json:"limit"`
		Deep
	}
	Sorting struct {
		Limit int    `json:"limit"`
		By    string `json:"by,omitempty"`
	}
	withPaging struct{ *paging }
)

// A field that encoding/json cannot set, because it is in an embedded pointer to an unexported
// struct, is no argument, and is reported. As everywhere, it hides other fields of its name. It is
// part of a result.
func TestFieldsThatCannotBeSet(t *testing.T) {
	for _, test := range []struct {
		add          func(*Server)
		want, trials string
	}{
		{toolOf[struct {
			*paging
			Query string
		}], "In.paging.Limit", `{"Query":{"type":"string"}},"required":["Query"],`},
		{toolOf[struct {
			*paging
			Sorting
		}], "In.paging.Deep.ID", `{"by":{"type":"string"}},`}, // the two limits hide each other
		{toolOf[struct {
			withPaging
			L []struct{ *paging }
		}], "In.withPaging.paging.Limit", `{"L":{"type":"array","items":{"type":"object","properties":{},"additionalProperties":false}}},"required":["L"],`},
		{toolOf[struct {
			*paging `json:"page"`
		}], "In.paging", `{},`},
		{toolOf[struct {
			paging
			*Sorting
		}], "", `{"id":{"type":"integer","minimum":-128,"maximum":127},"Deep":{"type":"string"},"X":{"type":"integer"},"Y":{"type":"integer"},"by":{"type":"string"}},"required":["id","Deep","X","Y"],`},
	} {
		s := &Server{}
		test.add(s)
		if got := reports(t, s); (got == "") != (test.want == "") || test.want != "" && !strings.HasPrefix(got, `mcp: tool "x": `+test.want+" is left out, because encoding/json cannot set it: ") {
			t.Errorf("reported %q, want %s", got, test.want)
		}
		tool, results := callX(t, s, `{"limit":1}`, `{"Query":"a","L":[],"id":1,"Deep":"","X":1,"Y":1}`)
		if got, want := string(tool.InputSchema), `{"type":"object","properties":`+test.trials+`"additionalProperties":false}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := results[0].text(); !strings.HasPrefix(got, invalidArgs+"limit is unknown") {
			t.Errorf("got %s", got)
		}
	}
	s := &Server{}
	wantPanics(t, []mistake{
		{`no field of mcp.withPaging takes the property "limit"`, func() { byHand[withPaging](s, `{"type":"object","properties":{"limit":{"type":"integer"}}}`) }},
	})
	out(withPaging{&paging{Limit: 5}}, nil)(s)
	if tool, results := callX(t, s, "{}"); !strings.HasPrefix(string(tool.OutputSchema), `{"type":"object","properties":{"limit":{"type":"integer"},`) || !strings.HasPrefix(results[0].text(), `{"limit":5,`) {
		t.Errorf("got %s, %s", tool.OutputSchema, results[0].text())
	}
}

type embeddedBase struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type (
	onlyReads int             // UnmarshalText alone
	byPointer struct{ N int } // MarshalText of the pointer
)

func (r *onlyReads) UnmarshalText(b []byte) error { *r = onlyReads(len(b)); return nil }

func (p *byPointer) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "#%d", p.N), nil }

func (p *byPointer) UnmarshalText(b []byte) (err error) {
	p.N, err = strconv.Atoi(strings.TrimPrefix(string(b), "#"))
	return err
}

// A type that has a text form is a string in the schema and in the output. An enum lists
// what is sent, and not what a String method returns.
func TestTextForms(t *testing.T) {
	type both struct {
		R onlyReads
		P byPointer
		Q *byPointer
	}
	s := &Server{}
	AddTool(s, Tool{Name: "x", OutputSchema: SchemaOf[both]()}, func(context.Context, none) (both, error) {
		return both{R: 3, P: byPointer{4}, Q: &byPointer{5}}, nil
	})
	tool, results := callX(t, s, "{}")
	if got := string(tool.OutputSchema); !strings.Contains(got, `"P":{"type":"string"},"Q":{"type":"string"}`) || !strings.Contains(results[0].text(), `"P":"#4","Q":"#5"`) {
		t.Errorf("got %s of %s", results[0].text(), got)
	}
	ofType[struct {
		R onlyReads
		P byPointer
	}](t, trial{`{"R":"abc","P":"#5"}`, `{"R":3,"P":{"N":5}}`}, trial{`{"R":5,"P":"#5"}`, `{"R":1,"P":{"N":5}}`})
	type colours struct {
		C colour   `enum:"red,blue"`
		L []colour `enum:"red,blue"`
	}
	derived[colours](t, trial{`{"C":"red","L":["blue"]}`, `{"C":"red","L":["blue"]}`},
		trial{`{"C":"painted","L":["green"]}`, `! C must be one of "red", "blue", got "painted"; L[0] must be one of "red", "blue", got "green"`})
}

// The output schema is derived from Out if Out can be described, and is not sent otherwise.
func TestOutputSchemaIsDerived(t *testing.T) {
	type reply struct {
		N int   `json:"n"`
		L []int `json:"l"`
	}
	const (
		derived = `{"type":"object","properties":{"n":{"type":"integer"},"l":{"type":"array","items":{"type":"integer"}}},"required":["n","l"],"additionalProperties":false}`
		fails   = "! The result cannot be sent: "

		emptyObject = `{"type":"object","properties":{},"additionalProperties":false}`
	)
	type pointerRow struct {
		Cells []*string          `json:"cells"`
		Times map[string]*int    `json:"times"`
		Lists []*[]int           `json:"lists"`
		Own   map[int]*time.Time `json:"own"`
	}
	type node struct {
		List []*node          `json:"list"`
		Map  map[string]*node `json:"map"`
		Up   *node            `json:"up"`
	}
	const (
		cut        = `{"type":"object","properties":{}}`
		listedNode = `{"type":"object","properties":{"list":{"type":"array","items":` + cut + `},"map":{"type":"object","properties":{},"additionalProperties":` + cut + `},"up":` +
			cut + `},"required":["list","map"],"additionalProperties":false}`
		freeForm = `{"type":"object","properties":{"P":{"type":"array","items":{"type":"object"}}}}`
	)
	textOnly := &Result{Content: []Content{Text("a")}}
	for _, tt := range []struct {
		name         string
		add          func(*Server)
		schema, text string
	}{
		{"struct", out(reply{N: 1}, nil), derived, `{"n":1,"l":[]}`},
		{"map", out(map[string]int(nil), nil), `{"type":"object","properties":{},"additionalProperties":{"type":"integer"}}`, "{}"},
		{"free-form map", out(map[string]any(nil), nil), `{"type":"object","properties":{}}`, "{}"},
		{"not describable", out(struct{ A any }{}, nil), "", `{"A":null}`},
		{"not describable, and a tag", out(struct {
			A any
			B int `enum:"x" jsonschema:"required"`
		}{}, nil), "", `{"A":null,"B":0}`},
		{"list", out([]reply{}, nil), "", "[]"},
		{"pointer", out(&reply{}, nil), "", `{"n":0,"l":[]}`},
		{"nil pointer", out((*reply)(nil), nil), "", "0 blocks"},
		{"nil pointer to a map", out((*map[string]int)(nil), nil), "", "0 blocks"},
		{"nil pointer to a list", out((*[]int)(nil), nil), "", "0 blocks"},
		{"nil pointer to bytes", out((*[]byte)(nil), nil), "", "0 blocks"},
		{"nil pointer to a string", out((*string)(nil), nil), "", "0 blocks"},
		{"nil pointer in any", out[any]((*map[string]int)(nil), nil), "", "0 blocks"},
		{"nil pointer in a Result", out(&Result{StructuredContent: (*[]int)(nil)}, nil), "", "0 blocks"},
		{"pointer to a nil map", out(new(map[string]int), nil), "", "{}"},
		{"given, nil pointer to a map", out((*map[string]int)(nil), nil, objectSchema), objectSchema, fails},
		{"nothing", out(none{}, nil), "", "0 blocks"},
		{"text", out("a", nil), "", "a"},
		{"given, struct", out(reply{}, nil, objectSchema), objectSchema, `{"n":0,"l":[]}`},
		{"given, any", out[any](reply{}, nil, objectSchema), objectSchema, `{"n":0,"l":[]}`},
		{"given, nil pointer", out((*reply)(nil), nil, objectSchema), objectSchema, fails},
		{"given, nil result", out((*Result)(nil), nil, objectSchema), objectSchema, fails},
		{"given, content alone", out(textOnly, nil, objectSchema), objectSchema, fails},
		{"given, nil in a result", out(&Result{StructuredContent: (*reply)(nil)}, nil, objectSchema), objectSchema, fails},
		{"given, nil", out[any](nil, nil, objectSchema), objectSchema, fails},
		{"given, a text", out[any]("a", nil, objectSchema), objectSchema, fails},
		{"given, an error", out(&Result{Content: []Content{Text("a")}, IsError: true}, nil, objectSchema), objectSchema, "! a"},
		{"nil among strings", out([]*string{ptr("1"), nil}, nil), "", `["1",null]`},
		{"nil among values", out(pointerRow{[]*string{ptr("1"), nil}, map[string]*int{"a": nil, "b": ptr(2)}, []*[]int{nil, {}, ptr([]int(nil))}, map[int]*time.Time{1: nil}}, nil),
			"", `{"cells":["1",null],"times":{"a":null,"b":2},"lists":[[],[],[]],"own":{"1":null}}`},
		{"nil among structs", out([]*pairOf{{1, 2}, nil}, nil), "", `[{"A":1,"B":2},null]`},
		{"nil among described strings", out(struct{ P []*string }{[]*string{nil}}, nil),
			`{"type":"object","properties":{"P":{"type":"array","items":{"type":"string"}}},"required":["P"],"additionalProperties":false}`, fails},
		{"pointers to structs", out(struct{ P []*none }{[]*none{{}}}, nil),
			`{"type":"object","properties":{"P":{"type":"array","items":` + emptyObject + `}},"required":["P"],"additionalProperties":false}`, `{"P":[{}]}`},
		{"nil among described structs", out(struct{ M map[string]*none }{map[string]*none{"a": nil}}, nil),
			`{"type":"object","properties":{"M":{"type":"object","properties":{},"additionalProperties":` + emptyObject + `}},"required":["M"],"additionalProperties":false}`, fails},
		// An object whose members are not listed may be a struct, and then {} is none.
		{"nil in a list of itself", out(node{List: []*node{nil}}, nil), listedNode, fails},
		{"nil in a map of itself", out(node{Map: map[string]*node{"a": nil}}, nil), listedNode, fails},
		{"nil in what is not listed", out(node{List: []*node{{List: []*node{{}, nil}}}}, nil), listedNode, `{"list":[{"list":[{"list":[],"map":{}},null],"map":{}}],"map":{}}`},
		{"nil by hand", out(struct{ P []*reply }{[]*reply{nil}}, nil, freeForm), freeForm, fails},
		{"nil by hand in a Result", out(&Result{StructuredContent: map[string][]*reply{"P": {nil}}}, nil, freeForm), freeForm, fails},
		{"no nil in itself", out(node{List: []*node{{}}}, nil), listedNode, `{"list":[{"list":[],"map":{}}],"map":{}}`},
		{"nil maps by hand", out(struct{ P []map[string]reply }{make([]map[string]reply, 1)}, nil, freeForm), freeForm, `{"P":[{}]}`},
		{"nil maps in any by hand", out(map[string]any{"P": []any{map[string]int(nil)}}, nil, freeForm), freeForm, `{"P":[{}]}`},
		{"any, a result by value", out[any](*textOnly, nil), "", "a"},
		{"the default of a type that is only written", out[any](struct {
			Color writesText `json:"color" default:"red"`
			Next  *int       `json:"next"`
		}{}, nil), "", `{"color":"red"}`},
		// Content and ResourceContents inside of another type are written as the newest revision has them.
		{"content inside", out(struct {
			Blocks   []Content        `json:"blocks"`
			One      *Content         `json:"one,omitempty"`
			Contents ResourceContents `json:"contents"`
			Message  PromptMessage    `json:"message"`
		}{
			Blocks:   []Content{Text("a"), Audio([]byte("b"), "audio/wav"), ResourceLink(Resource{URI: "x:a", Name: "a", Title: "A", Icons: []Icon{{Src: "https://a"}}})},
			Contents: ResourceContents{URI: "x:b", Blob: []byte("b"), Meta: map[string]any{"a": 1}},
			Message:  PromptMessage{Role: "user", Content: Text("hi")},
		}, nil), "", `{"blocks":[{"type":"text","text":"a"},{"type":"audio","data":"Yg==","mimeType":"audio/wav"},` +
			`{"type":"resource_link","uri":"x:a","name":"a","title":"A","icons":[{"src":"https://a"}]}],` +
			`"contents":{"uri":"x:b","blob":"Yg==","_meta":{"a":1}},"message":{"role":"user","content":{"type":"text","text":"hi"}}}`},
		{"invalid content inside", out(struct{ One *Content }{&Content{Type: "video"}}, nil), "", fails},
	} {
		s := &Server{}
		tt.add(s)
		tool, results := callX(t, s, "{}")
		if text := results[0].text(); string(tool.OutputSchema) != tt.schema || text != tt.text && (tt.text != fails || !strings.HasPrefix(text, fails)) {
			t.Errorf("%s: got %s, %s", tt.name, tool.OutputSchema, results[0].text())
		}
	}
	// The nulls of an output follow a schema by hand too.
	const hand = `{"type":"object","properties":{"l":{"type":"array","items":{"type":["integer","null"]}},"m":{"type":"object"},"s":{"type":"string"},"n":{"type":["string","null"]},` +
		`"deep":{"type":"array","items":{"type":"object","properties":{"l":{"type":"array"}}}},"b":{"type":"string","contentEncoding":"base64"},"r":{"type":"string"}},"required":["r"],"additionalProperties":{"type":"array","items":{"type":"string"}}}`
	for _, v := range []map[string]any{
		{"l": []int(nil), "m": map[string]int(nil), "s": (*string)(nil), "n": nil, "deep": []any{map[string]any{"l": nil}}, "b": []byte(nil), "more": nil, "r": ""},
		{"r": "", "more": []any{nil}}, {"r": nil},
	} {
		want := `{"b":"","deep":[{"l":[]}],"l":[],"m":{},"more":[],"n":null,"r":""}`
		if v["deep"] == nil {
			want = fails
		}
		s := &Server{}
		AddTool(s, Tool{Name: "x", OutputSchema: json.RawMessage(hand)}, func(context.Context, none) (map[string]any, error) { return v, nil })
		AddTool(s, Tool{Name: "y", OutputSchema: json.RawMessage(hand)}, func(context.Context, none) (*Result, error) { return &Result{StructuredContent: v}, nil })
		_, results := callX(t, s, "{}")
		if got := results[0].text(); !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		inBubble(t, s, legacyPV, func(c *client) {
			c.send("1 call y {}")
			if got := c.recv(); len(got) != 1 || want != fails && !strings.Contains(got[0], `"structuredContent":`+want) || want == fails && !strings.Contains(got[0], `"isError":true`) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// ---- arguments by their schema ----

// An ownForm has a JSON form of its own, which encoding/json reads.
type ownForm struct{ N int }

func (o *ownForm) UnmarshalJSON(raw []byte) error {
	type plain ownForm
	return json.Unmarshal(raw, (*plain)(o))
}

// Types of arguments, which FuzzArguments tries too.
type (
	several struct {
		Name  string   `json:"name"`
		Count int      `json:"count"`
		Unit  string   `json:"unit" enum:"mm,inch"`
		Tags  []string `json:"tags,omitempty" enum:"a,b" maxItems:"2"`
		At    *point   `json:"at,omitempty"`
	}
	level   int8
	ratio   float32
	numbers struct {
		I int64   `json:"i,omitempty"`
		U uint64  `json:"u,omitempty"`
		B level   `json:"b,omitempty"`
		C uint8   `json:"c,omitempty"`
		F float64 `json:"f,omitempty"`
		G ratio   `json:"g,omitempty"`
		T bool    `json:"t,omitempty"`
		P *int    `json:"p,omitempty"`
	}
	bounds struct {
		N int64   `json:"n,omitempty" minimum:"-2" maximum:"9007199254740992"`
		U uint64  `json:"u,omitempty" minimum:"3" maximum:"9007199254740992"`
		F float64 `json:"f,omitempty" minimum:"0.5" maximum:"1.5"`
		S string  `json:"s,omitempty" minLength:"2" maxLength:"3"`
		L []int   `json:"l,omitempty" minItems:"1" maxItems:"2"`
		E string  `json:"e,omitempty" enum:"x,y"`
		M string  `json:"m,omitempty" format:"email"`
		R string  `json:"r,omitempty" format:"uri"`
		D string  `json:"d,omitempty" format:"date"`
		T string  `json:"t,omitempty" format:"date-time"`
	}
	quoted struct { // what may arrive as a string that holds JSON
		L []int          `json:"l,omitempty"`
		O *point         `json:"o,omitempty"`
		M map[string]int `json:"m,omitempty"`
		F map[string]any `json:"f,omitempty"`
		S string         `json:"s,omitempty"`
		N int            `json:"n,omitempty"`
		T []string       `json:"t,omitempty"`
	}
)

// The handler receives its arguments as encoding/json reads them. If any are wrong, the
// handler does not run and one line names every fault. A schema by hand is enforced at every
// depth and for every type of In, with the same messages as a derived one.
func TestArguments(t *testing.T) {
	type file struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	}
	// properties returns the schema by hand of an object with these properties.
	properties := func(list string) string { return `{"type":"object","properties":{` + list + "}}" }
	for _, test := range []struct {
		promise string
		try     func(t *testing.T, trials ...trial) string
		trials  []trial
	}{
		{"a required argument", derived[struct{ Text string }], []trial{
			{`{"Text":"hi"}`, `{"Text":"hi"}`},
			{`{"Text":""}`, `{"Text":""}`},
			{`{}`, "! Text is required"},
			{`null`, "! Text is required"},
			{`{"Text":null}`, "! Text must be a string, got null"},
		}},
		{"a wrong type", derived[struct{ Text string }], []trial{
			{`{"Text":true}`, "! Text must be a string, got true"},
			{`{"Text":["a"]}`, `! Text must be a string, got ["a"]`},
			{`{"Text":[` + strings.Repeat("1,", 100) + `1]}`, "! Text must be a string, got [" + strings.Repeat("1,", 49) + "1..."},
		}},
		{"twice, or unknown", derived[*struct{ Text string }], []trial{
			{`{"Text":"pointer"}`, `{"Text":"pointer"}`},
			{`{"Text":"a","Text":"b"}`, "! Text came twice"},
			{`{"Text":"a","T\u0065xt":"b"}`, "! Text came twice"},
			{`{"Text":"a","TEXT":"b"}`, "! TEXT is unknown (there is Text)"},
			{`{"Text":"a","b\nc":1}`, `! "b\nc" is unknown (there is Text)`},
			{`{"Text":"a","":1}`, `! "" is unknown (there is Text)`},
		}},
		{"no arguments", derived[none], []trial{
			{`{"x":1}`, "! x is unknown (there is no argument here)"},
		}},
		{"several faults", derived[several], []trial{
			{`{"name":"n","count":1,"units":"mm"}`, "! units is unknown (there is name, count, unit, tags, at); unit is required"},
			{`{"name":"n","count":1,"unit":"mm","TAG":"mm"}`, "! TAG is unknown (there is name, count, unit, tags, at)"},
			{`{"name":1,"count":"x","unit":"cm","at":{"x":{}}}`,
				`! count must be an integer, got "x"; unit must be one of "mm", "inch", got "cm"; at.x must be an integer, got {}`},
			{`{"name":"n","count":1,"unit":"mm","tags":["a","c"]}`, `! tags[1] must be one of "a", "b", got "c"`},
			{`{"name":"n","count":1,"unit":"mm","tags":"a"}`, `{"name":"n","count":1,"unit":"mm","tags":["a"]}`},
			{`{"name":"n","count":1,"unit":"mm","tags":null,"at":null}`, `{"name":"n","count":1,"unit":"mm"}`},
			{`{"unit":"mm","count":1,"name":"n","at":{"x":1}}`, `{"name":"n","count":1,"unit":"mm","at":{"x":1}}`},
		}},
		{"maps", derived[map[string]int], []trial{
			{`{"a":1,"b":"2"}`, `{"a":1,"b":2}`},
			{`{"a":1,"a":2}`, "! a came twice"},
			{`{"a":"x"}`, `! a must be an integer, got "x"`},
			{`{"a":null,"b":1}`, "! a must be an integer, got null"}, // a key of a map is data
		}},
		{"free-form maps", derived[map[string]any], []trial{
			{`{"a":null}`, `{"a":null}`},
			{`{}`, `{}`},
		}},
		{"null in lists and maps", derived[struct {
			L []*int          `json:"l,omitempty"`
			M map[string]*int `json:"m,omitempty"`
		}], []trial{
			{`{"l":[1,null]}`, "! l[1] must be an integer, got null"},
			{`{"l":null,"m":null}`, "{}"},
			{`{"l":[1],"m":{"a":2}}`, `{"l":[1],"m":{"a":2}}`},
		}},
		{"paths", derived[struct {
			A []struct {
				B map[string]point `json:"b"`
			} `json:"a"`
		}], []trial{
			{`{"a":[{"b":{"k":{"x":1}}}]}`, `{"a":[{"b":{"k":{"x":1}}}]}`},
			{`{"a":[{"b":{}},{"b":{"k":{"x":"?"}}}]}`, `! a[1].b.k.x must be an integer, got "?"`},
			{`{"a":[{"b":{"k":{}}}]}`, "! a[0].b.k.x is required"},
			{`{"a":[{"b":{"k":{"x":1,"z":1}}}]}`, "! a[0].b.k.z is unknown (there is x, y)"},
			{`{"a":[7]}`, "! a[0] must be an object, got 7"},
			{`{"a":"[\n[1,\n{\"b\": \"\u2028\"}\n]]"}`, `! a[0] must be an object, got [1,{"b":"\u2028"}]`},
		}},
		{"fields of embedded pointers, which are omitted when the pointer is nil", derived[struct {
			*Deep
			Z int `json:"z"`
		}], []trial{
			{`{"z":1}`, `{"z":1}`},
			{`{"z":1,"X":2}`, `{"id":0,"Deep":"","X":2,"Y":0,"z":1}`},
			{`{}`, "! z is required"},
		}},
		{"types that contain themselves", derived[tree], []trial{
			{`{"name":"a","kids":[{"name":"b","kids":[{"name":"c","up":{"name":"d"}}]}]}`,
				`{"name":"a","kids":[{"name":"b","kids":[{"name":"c","up":{"name":"d","up":null}}],"up":null}],"up":null}`},
		}},

		// Numbers.
		{"numbers are exact", derived[numbers], []trial{
			{`{"i":9007199254740993,"u":18446744073709551615}`, `{"i":9007199254740993,"u":18446744073709551615}`},
			{`{"i":-9223372036854775808,"b":-128,"c":255}`, `{"i":-9223372036854775808,"b":-128,"c":255}`},
			{`{"i":9007199254740992.0,"u":1e3,"c":-0}`, `{"i":9007199254740992,"u":1000}`},
			{`{"i":1e18,"u":12.5e1}`, `{"i":1000000000000000000,"u":125}`},
			{`{"i":1e-400}`, "! i must be an integer, got 1e-400"},
			{`{"i":5.0,"p":null,"f":1}`, `{"i":5,"f":1}`},
			{`{"b":10e-1}`, `{"b":1}`},
			{`{"b":-1200.0e-2}`, `{"b":-12}`},
			{`{"p":null,"p":null}`, "! p came twice"},
		}},
		{"zero", derived[struct{ P, Q, R, S, T, U, V, W *int }], []trial{
			{`{"P":0e-1,"Q":0.0e-5,"R":-0.0e-7,"S":0.00,"T":0E+9,"U":-0,"V":"0e-1","W":0e-99999999999999999999}`, `{"P":0,"Q":0,"R":0,"S":0,"T":0,"U":0,"V":0,"W":0}`},
		}},
		{"numbers as texts", derived[numbers], []trial{
			{`{"i":"5","f":"-2.5e3","t":"true","p":"0"}`, `{"i":5,"f":-2500,"t":true,"p":0}`},
			{`{"i":"5.5","u":"0x10","f":""}`,
				`! i must be an integer, got "5.5"; u must be an integer, got "0x10"; f must be a number, got ""`},
			{`{"t":1}`, "! t must be a boolean, got 1"},
			{`{"t":"True"}`, `! t must be a boolean, got "True"`},
			{`{"i":true,"f":[]}`, "! i must be an integer, got true; f must be a number, got []"},
		}},
		{"numbers that the Go type does not hold", derived[numbers], []trial{
			{`{"i":5.5}`, "! i must be an integer, got 5.5"},
			{`{"b":1e-1}`, "! b must be an integer, got 1e-1"},
			{`{"i":9007199254740993.0}`, `{"i":9007199254740993}`}, // a float64 does not hold it
			{`{"i":0.99999999999999999999}`, "! i must be an integer, got 0.99999999999999999999"},
			{`{"i":9223372036854775808,"u":18446744073709551616}`, "! i must be at most 9223372036854775807, got 9223372036854775808; " +
				"u must be at most 18446744073709551615, got 18446744073709551616"},
			{`{"i":1e300,"b":128,"c":256}`, "! i must be at most 9223372036854775807, got 1e300; b must be at most 127, got 128; c must be at most 255, got 256"},
			{`{"u":-1}`, "! u must be at least 0, got -1"},
			{`{"b":1e99999999999999999999}`, "! b must be at most 127, got 1e99999999999999999999"},
			{`{"g":1e300}`, "! g must be at most 3.4028235e38, got 1e300"},
		}},
		{"numbers in a map that the Go type does not hold", derived[struct{ M map[string]int64 }], []trial{
			{`{"M":{"k":1e19}}`, "! M.k must be at most 9223372036854775807, got 1e19"},
		}},

		// Tags.
		{"tags", derived[bounds], []trial{
			{`{"n":-2,"u":9007199254740992,"f":1.5,"s":"éé","l":[1,2],"e":"y","m":"a@b","r":"x:y","d":"2025-01-02","t":"2025-01-02T03:04:05.6+01:00"}`,
				`{"n":-2,"u":9007199254740992,"f":1.5,"s":"éé","l":[1,2],"e":"y","m":"a@b","r":"x:y","d":"2025-01-02","t":"2025-01-02T03:04:05.6+01:00"}`},
			{`{"n":-3,"u":2,"f":0.25}`, "! n must be at least -2, got -3; u must be at least 3, got 2; f must be at least 0.5, got 0.25"},
			{`{"n":9007199254740994,"u":9007199254740994,"f":2}`, "! n must be at most 9007199254740992, got 9007199254740994; " +
				"u must be at most 9007199254740992, got 9007199254740994; f must be at most 1.5, got 2"},
			{`{"s":"é","l":[],"e":"z"}`, `! s must have a length of at least 2, got 1; l must have a length of at least 1, got 0; e must be one of "x", "y", got "z"`},
			{`{"s":"abcd","l":[1,2,3]}`, "! s must have a length of at most 3, got 4; l must have a length of at most 2, got 3"},
			{`{"m":"a","r":"b","d":"1.1.2025","t":"2025-01-02"}`,
				`! d must be of the format date, as in 2026-01-31, got "1.1.2025"; t must be of the format date-time, as in 2026-01-31T09:30:00Z, got "2025-01-02"`},
		}},
		{"defaults", derived[struct {
			S string   `json:"s" default:"x"`
			N *int     `json:"n" default:"5"`
			L []string `json:"l" default:"[\"a\",\n\"b\"]"`
			B bool     `json:"b" default:"true"`
		}], []trial{
			{`{}`, `{"s":"x","n":5,"l":["a","b"],"b":true}`},
			{`{"s":null,"n":null,"l":null,"b":null}`, `{"s":"x","n":5,"l":["a","b"],"b":true}`},
			{`{"s":"","n":0,"l":[],"b":false}`, `{"s":"","n":0,"l":[],"b":false}`},
			{`{"n":null,"n":1}`, "! n came twice"},
		}},
		{"several faults of one text", derived[struct {
			D string `json:"d" minLength:"3" format:"date"`
		}], []trial{{`{"d":"x"}`, `! d must have a length of at least 3, got 1; d must be of the format date, as in 2026-01-31, got "x"`}}},
		{"a default that is itself filled in and converted", derived[struct {
			P struct {
				A int `json:"a" default:"5"`
				B int `json:"b"`
			} `json:"p" default:"{\"b\":1.0}"`
		}], []trial{{`{}`, `{"p":{"a":5,"b":1}}`}}},
		{"types with a text form, or a String method", derived[struct {
			T *time.Time    `json:"t,omitempty"`
			B []byte        `json:"b,omitempty"`
			A *netip.Addr   `json:"a,omitempty"`
			M map[lang]int  `json:"m,omitempty"`
			P time.Duration `json:"p,omitempty" minimum:"5"`
		}], []trial{
			{`{"t":"2025-01-02T03:04:05Z","b":"aGk=","a":"::1","m":{"EN":1}}`, `{"t":"2025-01-02T03:04:05Z","b":"aGk=","a":"::1","m":{"en":1}}`},
			{`{"t":"today","b":"?","a":"x"}`, `! t must be of the format date-time, as in 2026-01-31T09:30:00Z, got "today"; b must be base64, got "?"`},
			{`{"a":"x"}`, `! a is not valid: ParseAddr("x"): unable to parse IP`}, // after the faults by the schema
			{`{"m":{"ENGLISH":1}}`, "! m is not valid: bad"},
			{`{"p":1}`, "! p must be at least 5, got 1"}, // and not 1ns
		}},

		// Names.
		{"names are exact, also where encoding/json would match them without regard to case", hand[struct {
			Map  map[string]file `json:"map,omitempty"`
			List []*file         `json:"list,omitempty"`
			One  struct{ file }  `json:"one,omitzero"`
			Any  map[string]any  `json:"any,omitempty"`
		}](properties(`"map":{"type":"object","additionalProperties":` + properties(`"path":{"enum":["a.txt"]},"Path":{"type":"string"}`) + "}")), []trial{
			{`{"map":{"k":{"path":"a.txt","Path":"/etc/passwd"}}}`, "! map.k.Path is unknown (there is path, kind)"},
			{`{"map":{"k":{"path":"a.txt","kind":"x"}}}`, `{"map":{"k":{"path":"a.txt","kind":"x"}}}`},
			{`{"list":[{"PATH":"x"}]}`, "! list[0].PATH is unknown (there is path, kind)"},
			{`{"list":"[{\"pAth\":\"x\"}]"}`, "! list[0].pAth is unknown (there is path, kind)"},
			{`{"one":{"\u212aind":"x"}}`, "! one.\u212aind is unknown (there is path, kind)"}, // the sign of kelvin is a k in another case
			{`{"Map":{}}`, "! Map is unknown (there is map, list, one, any)"},
			{`{"any":{"a":1,"A":{"path":1,"Path":2}}}`, `{"any":{"A":{"Path":2,"path":1},"a":1}}`},
			{`{"other":{"Path":1}}`, `{}`},
		}},
		{"names that differ in case, in a map", hand[map[string]any](objectSchema), []trial{
			{`{"a":1,"A":2}`, `{"A":2,"a":1}`},
		}},
		{"names that differ in case, of fields", derived[struct {
			A string `json:"x"`
			B string `json:"X"`
		}], []trial{
			{`{"x":"1","X":"2"}`, `{"x":"1","X":"2"}`},
		}},

		// Texts and numbers that are converted.
		{"texts for lists", derived[quoted], []trial{
			{`{"t":"null"}`, `{}`}, {`{"t":""}`, `{}`}, {`{"t":"n\u0075ll"}`, `{}`}, {`{"t":" "}`, `{"t":[" "]}`},
			{`{"t":"a, b"}`, `{"t":["a, b"]}`}, {`{"t":"5"}`, `{"t":["5"]}`}, {`{"t":"{}"}`, `! t must be an array, got "{}"`},
			{`{"t":"['a', 'b']"}`, `! t must be an array, got "['a', 'b']"`}, {`{"t":" [a]"}`, `! t must be an array, got " [a]"`},
			{`{"t":"[1, -2]"}`, `{"t":["1","-2"]}`}, {`{"t":["null",""]}`, `{"t":["null",""]}`}, {`{"t":5}`, "! t must be an array, got 5"},
			{`{"l":""}`, `! l must be an array, got ""`}, {`{"n":"null"}`, `! n must be an integer, got "null"`}, {`{"o":""}`, `! o must be an object, got ""`},
		}},
		{"texts for required lists", derived[struct{ Fields []string }], []trial{
			{`{"Fields":"null"}`, `! Fields must be an array, got "null"`},
			{`{"Fields":""}`, `! Fields must be an array, got ""`},
		}},
		{"texts for lists in lists", derived[struct {
			L [][]string
			D []string `default:"[\"d\"]"`
		}], []trial{
			{`{"L":[["a"],"b"],"D":""}`, `{"L":[["a"],["b"]],"D":["d"]}`},
			{`{"L":[""]}`, `! L[0] must be an array, got ""`},
		}},
		{"texts for lists that may be null", hand[json.RawMessage](properties(`"l":{"type":["array","null"],"items":{"type":"string"}}`)), []trial{
			{`{"l":"null"}`, `{"l":null}`},
			{`{"l":"x"}`, `{"l":["x"]}`},
		}},
		{"what a text or a default changes, and what stays as it came", derived[struct {
			L []map[string]int `json:"l"`
			N int              `json:"n,omitempty"`
			D int              `json:"d" default:"7"`
		}], []trial{
			{`{"l":[]}`, `{"l":[],"d":7}`},
			{` { "l" : [ {"a":1} , {"b":"2"} , { } ] , "d" : 1 } `, `{"l":[{"a":1},{"b":2},{}],"d":1}`},
			{`{"l":[{"a":1,"b":2.0,"c":3}],"n":null}`, `{"l":[{"a":1,"b":2,"c":3}],"d":7}`},
			{`{"n":null,"l":"[{\"a\":\"1\"}]"}`, `{"l":[{"a":1}],"d":7}`},
			{`{"wait_for_previous":true,"l":[],"d":2,"n":3}`, `{"l":[],"n":3,"d":2}`},
		}},
		{"lists and objects as texts", derived[quoted], []trial{
			{`{"l":"[1, 2]"}`, `{"l":[1,2]}`}, {`{"l":" [] "}`, `{}`}, {`{"o":"{\"x\": 1}"}`, `{"o":{"x":1}}`},
			{`{"m":"{\"a\":1}"}`, `{"m":{"a":1}}`}, {`{"f":"{\"a\":[null]}"}`, `{"f":{"a":[null]}}`}, {`{"f":[]}`, `{}`},
			{`{"l":["1"]}`, `{"l":[1]}`}, {`{"t":"[\"[1]\"]"}`, `{"t":["[1]"]}`}, {`{"n":"5"}`, `{"n":5}`},
			{`{"s":"[1]"}`, `{"s":"[1]"}`}, {`{"s":"{}"}`, `{"s":"{}"}`}, {`{"s":[1]}`, "! s must be a string, got [1]"},
			{`{"l":"[1"}`, `! l must be an array, got "[1"`}, {`{"l":"{}"}`, `! l must be an array, got "{}"`},
			{`{"l":"1"}`, `! l must be an array, got "1"`}, {`{"l":"[1] x"}`, `! l must be an array, got "[1] x"`},
			{`{"o":"[]"}`, "! o.x is required"}, {`{"o":"{\"z\":1}"}`, "! o.z is unknown (there is x, y); o.x is required"},
			{`{"n":"[1]"}`, `! n must be an integer, got "[1]"`},
		}},
		{"numbers for strings", derived[struct {
			ID string            `json:"id,omitempty"`
			E  string            `json:"e,omitempty" enum:"1,2"`
			S  string            `json:"s,omitempty" maxLength:"2"`
			D  string            `json:"d,omitempty" format:"date"`
			M  map[string]string `json:"m,omitempty"`
			P  *string           `json:"p,omitempty"`
		}], []trial{
			{`{"id":1,"e":2,"s":-1,"m":{"a":0},"p":5}`, `{"id":"1","e":"2","s":"-1","m":{"a":"0"},"p":"5"}`},
			{`{"id":999999999999999}`, `{"id":"999999999999999"}`}, {`{"id":-999999999999999}`, `{"id":"-999999999999999"}`},
			{`{"id":1000000000000000}`, "! id must be a string, got 1000000000000000"},
			{`{"id":1.0,"e":3,"s":100}`, `! id must be a string, got 1.0; e must be one of "1", "2", got 3; s must have a length of at most 2, got 3`},
			{`{"id":1e3,"s":-0,"p":true}`, "! id must be a string, got 1e3; s must be a string, got -0; p must be a string, got true"},
			{`{"d":20260101}`, `! d must be of the format date, as in 2026-01-31, got 20260101`},
		}},
		{"numbers for types with a text form", ofType[struct {
			B []byte     `json:"b,omitempty"`
			T *time.Time `json:"t,omitempty"`
		}], []trial{
			{`{"b":5,"t":5}`, `! b must be a string, got 5; t must be of the format date-time, as in 2026-01-31T09:30:00Z, got 5`},
		}},
		{"numbers for strings of a schema by hand", hand[map[string]any](properties(
			`"a":{"type":["string","number"]},"b":{"type":["string","null"],"pattern":"x"},"c":{},"d":{"type":"string","contentEncoding":"base64"}`)), []trial{
			{`{"a":5,"b":6,"c":7}`, `{"a":5,"b":"6","c":7}`},
			{`{"b":5.5}`, "! b must be a string or null, got 5.5"},
			{`{"d":1234}`, "! d must be a string, got 1234"},
		}},
		{"all arguments as a text, or an empty list", derived[point], []trial{
			{`"{\"x\":1}"`, `{"x":1}`}, {`" {\"x\": \"1\"} "`, `{"x":1}`}, {`"[]"`, "! x is required"}, {`[]`, "! x is required"},
			{`[1]`, "! must be an object, got [1]"}, {`"x"`, `! must be an object, got "x"`}, {`"null"`, `! must be an object, got "null"`},
			{`5`, "! must be an object, got 5"}, {`""`, `! must be an object, got ""`},
		}},
		{"objects as empty lists", derived[map[string]map[string]int], []trial{
			{`[]`, `{}`},
			{`{"a":[],"b":[ ]}`, `{"a":{},"b":{}}`},
		}},
		{"all arguments as a text, for raw JSON", hand[json.RawMessage](openSchema), []trial{
			{`[ ]`, `{}`},
			{`"{\"a\":[]}"`, `{"a":[]}`},
		}},

		// Schemas by hand.
		{"a schema by hand that allows what the Go type does not take", hand[struct {
			A struct{ B int64 }
			M map[string]uint8
			L []float32
			S string
			T *time.Time
			N *netip.Addr
			Y []byte
		}](openSchema), []trial{
			{`{"A":{"B":"x"}}`, `! A.B must be an integer, got "x"`},
			{`{"A":{"B":1,"B":2},"M":{"k":1,"k":1}}`, "! A.B came twice; M.k came twice"},
			{`{"A":{"B":"7"},"S":7}`, `{"A":{"B":7},"M":null,"L":null,"S":"7","T":null,"N":null,"Y":null}`},
			{`{"A":{"B":5.0},"L":[1e2]}`, `{"A":{"B":5},"M":null,"L":[100],"S":"","T":null,"N":null,"Y":null}`},
			{`{"M":{"k":256,"j":1},"L":[1,1e39],"A":{"B":9223372036854775808}}`, "! M.k must be at most 255, got 256; " +
				"L[1] must be at most 3.4028235e38, got 1e39; A.B must be at most 9223372036854775807, got 9223372036854775808"},
			{`{"T":"today","N":"x","Y":"?","S":[]}`, `! T must be of the format date-time, as in 2026-01-31T09:30:00Z, got "today"; ` +
				`N is not valid: ParseAddr("x"): unable to parse IP; Y must be base64, got "?"; S must be a string, got []`},
			{`{"A":null,"M":null,"S":null}`, `{"A":{"B":0},"M":null,"L":null,"S":"","T":null,"N":null,"Y":null}`},
		}},
		{"a fault that the schema and the Go type find", hand[struct{ T time.Time }](properties(`"T":{"type":"string","format":"date-time"}`)), []trial{
			{`{"T":"x"}`, `! T must be of the format date-time, as in 2026-01-31T09:30:00Z, got "x"`},
		}},
		{"types that cannot be described, which encoding/json decodes", hand[struct {
			A [2]float64      `json:"a"`
			M map[int]string  `json:"m"`
			R json.RawMessage `json:"r,omitempty"`
			V any             `json:"v,omitempty"`
			N json.Number     `json:"n,omitempty"`
			Q int             `json:"q,string"`
		}](objectSchema), []trial{
			{`{"a":[1,2.5],"m":{"3":"x"},"r":{"k":[ 1 ]},"v":[null],"n":1.50,"q":"7"}`, `{"a":[1,2.5],"m":{"3":"x"},"r":{"k":[1]},"v":[null],"n":1.50,"q":"7"}`},
			{`{}`, `{"a":[0,0],"m":null,"q":"0"}`},
			{`{"m":{"y":"z"}}`, "! m is not valid: "},
		}},
		{"the json option string", hand[struct {
			Q int    `json:"q,string"`
			S string `json:"s,string"`
			O struct {
				Q int `json:"q,string"`
			} `json:"o"`
			T time.Time `json:"t,string,omitzero"` // which the option leaves as it is
		}](properties(`"o":{"type":"object","properties":{"q":{"type":"string"}}}`)), []trial{
			{`{"q":"7","s":"\"x\"","o":{"q":"8"}}`, `{"q":"7","s":"\"x\"","o":{"q":"8"}}`},
			{`{"t":"2026-01-31T09:30:00Z"}`, `{"q":"0","s":"\"\"","o":{"q":"0"},"t":"2026-01-31T09:30:00Z"}`},
		}},
		{"an error of UnmarshalJSON", hand[struct{ A struct{ ownForm } }](objectSchema), []trial{
			{`{"A":{"N":"x"}}`, "! A is not valid: N must not be a JSON string"},
		}},
		{"the tags of In do not count", hand[struct {
			A int8 `json:"a" maximum:"1"`
			B int  `json:"b" default:"3"`
		}](properties(`"a":{"type":"integer","default":5}`)), []trial{
			{`{"c":[ 1 ]}`, `{"a":5,"b":0}`},
			{`{"a":300}`, "! a must be at most 127, got 300"},
		}},
		{"null, by hand", hand[any](properties(`"n":{"type":"null"},"m":{"type":["null","integer"]}`)), []trial{
			{`{"n":5}`, "! n must be null, got 5"},
			{`{"m":"null"}`, `{"m":null}`},
			{`{"m":"x"}`, `! m must be null or an integer, got "x"`},
		}},
		{"null of an optional argument", hand[json.RawMessage](properties(
			`"a":{"type":"string"},"b":{},"c":{"enum":["x","y"]},"d":{"type":"object","additionalProperties":{"type":"integer"}}`)), []trial{
			{`{"a":null,"b":null,"c":null,"d":null,"e":null}`, `{"b":null,"e":null}`},
			{`{"d":{"x":null,"y":1}}`, "! d.x must be an integer, got null"}, // a key of a map is data
		}},
		{"enum and const", hand[json.RawMessage](properties(
			`"v":{"enum":[1,null,"x",{"a":[2]}]},"c":{"const":5},"ce":{"const":"a","enum":["a","b"]},"e":{"enum":[9007199254740993,1e2]}`)), []trial{
			{`{"v":{"a":[2.0]},"c":5.0,"ce":"a","e":100.0}`, `{"v":{"a":[2.0]},"c":5.0,"ce":"a","e":100.0}`},
			{`{"v":2}`, `! v must be one of 1, null, "x", {"a":[2]}, got 2`},
			{`{"c":6,"ce":"b"}`, `! c must be one of 5, got 6; ce must be one of "a", got "b"`},
			{`{"e":9007199254740992}`, "! e must be one of 9007199254740993, 1e2, got 9007199254740992"},
		}},
		{"bounds as they are written", hand[json.RawMessage](properties(
			`"s":{"type":"string","maxLength":2.0},"l":{"type":"array","items":{},"maxItems":1e0},"n":{"type":"integer","minimum":0.5}`)), []trial{
			{`{"s":"abc","l":[1,2],"n":0}`, "! s must have a length of at most 2.0, got 3; l must have a length of at most 1e0, got 2; n must be at least 0.5, got 0"},
			{`{"s":"ab","l":[null],"n":1E2}`, `{"s":"ab","l":[null],"n":100}`},
		}},
		{"whole numbers, by hand", hand[json.RawMessage](properties(`"a":{"type":"integer"},"b":{"type":"number"},"d":{"type":"integer","maximum":1e300}`)), []trial{
			{`{"a":1e300,"b":1E5,"c":1E2,"d":12345678901234567890123}`, `{"a":1e300,"b":1E5,"c":1E2,"d":12345678901234567890123}`},
			{`{"a":1e19}`, `{"a":10000000000000000000}`}, {`{"a":1e20}`, `{"a":1e20}`}, {`{"a":1e2}`, `{"a":100}`},
		}},
		{"a list of types", hand[json.RawMessage](properties(
			`"a":{"type":["string","null"],"minLength":1},"b":{"type":["string","integer"]},"c":{"type":["null","array"],"items":{"type":"string"}},` +
				`"d":{"type":["number","null"],"enum":[1,null]},"e":{"type":["integer","null"]},"t":{"type":["integer","boolean"]},"i":{"type":["array","string"],"items":{"type":"integer"}}`)), []trial{
			{`{"a":null,"b":5,"c":null,"d":null}`, `{"a":null,"b":5,"c":null,"d":null}`},
			{`{"e":"7","b":"5","c":"x","t":1.0}`, `{"e":7,"b":"5","c":["x"],"t":1.0}`},
			{`{"t":"true"}`, `! t must be an integer or a boolean, got "true"`},
			{`{"i":["7",8.0]}`, `{"i":[7,8]}`}, {`{"i":["x"]}`, `! i[0] must be an integer, got "x"`}, {`{"i":"x"}`, `{"i":"x"}`},
		}},
		{"objects, by hand", hand[json.RawMessage](properties(
			`"req":{"type":"object","required":["k"],"additionalProperties":{"type":"integer"}},"by":{"type":"string","contentEncoding":"base64"},` +
				`"o":{"type":"object","properties":{"i":{"type":"integer"}},"required":["i"]},` +
				`"p":{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}},"c":{"type":"object","additionalProperties":false},"f":{"type":"object"}`)), []trial{
			{`{"req":{"k":1},"by":"aGk=","o":{"i":"7","more":1},"p":{"a":1,"b":"x"},"c":{}}`, `{"req":{"k":1},"by":"aGk=","o":{"i":7,"more":1},"p":{"a":1,"b":"x"},"c":{}}`},
			{`{"req":{},"by":"?","o":{}}`, "! req.k is required; by must be base64, got \"?\"; o.i is required"},
			{`{"req":{"k":"x"},"p":{"a":"?","b":true}}`, `! req.k must be an integer, got "x"; p.a must be an integer, got "?"; p.b must be a string, got true`},
			{`{"c":{"x":1}}`, "! c.x is unknown (there is no argument here)"},
			{`{"f":{"x":1,"x":2}}`, "! f.x came twice"}, {`{"f":{"x":{"y":1,"y":2}}}`, `{"f":{"x":{"y":1,"y":2}}}`},
		}},
		{"defaults, by hand", hand[json.RawMessage](`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{` +
			`"n":{"type":"integer","default":1},"max":{"default":10,"title":"Max","type":"integer"},"s":{"type":"string","default":null},"any":{"anyOf":[{}],"default":null},` +
			`"o":{"type":"object","properties":{"a":{"type":"integer","default":5},"b":{"type":"object","properties":{"c":{"default":[1]},"d":{"type":"array","default":null}}}}}},"required":["n"]}`), []trial{
			{`{"n":2}`, `{"n":2,"max":10}`}, // a default does not make an argument optional
			{`{}`, "! n is required"},
			{`{"n":2,"max":1,"o":{"b":{}}}`, `{"n":2,"max":1,"o":{"b":{"c":[1]},"a":5}}`},
		}},
		{"what is not enforced", hand[json.RawMessage](properties(
			`"u":{"anyOf":[{"type":"string"}],"minimum":3,"pattern":"^x"},"a":{"$ref":"#"},"b":{"oneOf":[{"type":"object"}]},"i":{"type":"string","format":"uuid"},` +
				`"t":{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"boolean"}},"n":{"items":{"type":"string"}},` +
				`"x":{"exclusiveMinimum":0,"type":"number","multipleOf":2},"c":{"type":"object","patternProperties":{"^x":{"type":"integer"}},"additionalProperties":false}`)), []trial{
			{`{"u":2,"a":[1,{"b":null}],"b":{"c":[ 1.0 ]},"i":"?","t":["a",1,true],"n":5,"x":-1,"c":{"y":"z"},"any":"5"}`,
				`{"u":2,"a":[1,{"b":null}],"b":{"c":[1.0]},"i":"?","t":["a",1,true],"n":5,"x":-1,"c":{"y":"z"},"any":"5"}`},
			{`{"path":"/tmp/\u00e9 \"x\"","more":[{}]}`, `{"path":"/tmp/\u00e9 \"x\"","more":[{}]}`},
		}},
	} {
		t.Run(test.promise, func(t *testing.T) { test.try(t, test.trials...) })
	}
}

// Clients in .NET escape each "+". What is set is the text that was checked, wherever the time is.
func TestTimesWithEscapes(t *testing.T) {
	type in struct {
		At  time.Time              `json:"at,omitzero"`
		P   *time.Time             `json:"p,omitempty"`
		L   []time.Time            `json:"l,omitempty"`
		M   map[string]time.Time   `json:"m,omitempty"`
		In  struct{ At time.Time } `json:"in,omitzero"`
		Day string                 `json:"day,omitempty" format:"date"`
	}
	const sent, set = `"2026-01-31T09:30:00\u002B01:00"`, `"2026-01-31T09:30:00+01:00"`
	trials := []trial{
		{`{"at":` + sent + `}`, `{"at":` + set + `}`},
		{`{"p":` + sent + `,"l":[` + sent + `]}`, `{"p":` + set + `,"l":[` + set + `]}`},
		{`{"m":{"k":` + sent + `}}`, `{"m":{"k":` + set + `}}`},
		{`{"in":{"At":"\u0032026-01-31T09:30:00Z"}}`, `{"in":{"At":"2026-01-31T09:30:00Z"}}`},
		{`{"day":"2026\u002d01-31"}`, `{"day":"2026-01-31"}`},
		{`{"at":"2026-01-31T09:30:00\u002B"}`, `! at must be of the format date-time, as in 2026-01-31T09:30:00Z, got "2026-01-31T09:30:00\u002B"`},
	}
	s := &Server{}
	AddTool(s, Tool{Name: "x"}, func(_ context.Context, v in) (*in, error) { return &v, nil })
	try(t, s, trials...)
	byHand := &Server{}
	AddTool(byHand, Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}, func(_ context.Context, v in) (*in, error) { return &v, nil })
	try(t, byHand, trials[:4]...)
}

// A bound in a tag or a schema may be wider than the range of the Go type, which then counts.
func TestBoundsWiderThanTheGoType(t *testing.T) {
	type in struct {
		N uint8 `json:"n" minimum:"-5" maximum:"300"`
		I int64 `json:"i,omitempty" maximum:"1e30"`
	}
	trials := []trial{
		{`{"n":255}`, `{"n":255}`},
		{`{"n":299}`, "! n must be at most 255, got 299"},
		{`{"n":-1}`, "! n must be at least 0, got -1"},
		{`{"n":1,"i":9223372036854775808}`, "! i must be at most 9223372036854775807, got 9223372036854775808"},
	}
	s := &Server{}
	AddTool(s, Tool{Name: "x"}, func(_ context.Context, v in) (*in, error) { return &v, nil })
	try(t, s, trials...)
	hand[in](`{"type":"object","properties":{"n":{"type":"integer","minimum":-5,"maximum":300},"i":{"type":"integer","maximum":1e30}}}`)(t, trials[1:]...)
}

// If the lists in a type exceed ten levels, the object around them is cut, which may be the whole. Then only the Go type
// says what is valid.
func TestArgumentsThatAreCutAtTheTop(t *testing.T) {
	type in struct {
		L [][][][][][][][][][]int `json:"l,omitempty"`
		M map[string]int          `json:"m,omitempty"`
	}
	s := &Server{}
	AddTool(s, Tool{Name: "x"}, func(_ context.Context, v in) (*in, error) { return &v, nil })
	try(t, s,
		trial{`{"L":[]}`, "! L is unknown (there is l, m)"},
		trial{`{"m":"{\"a\":\"1\"}"}`, `{"m":{"a":1}}`},
		trial{`{"m":[],"wait_for_previous":true}`, `{}`},
		trial{`{"m":5}`, "! m must be an object, got 5"})
}

// Numbers are compared exactly, at every depth of an enum, and so is what is written in another way.
func TestValuesAreComparedExactly(t *testing.T) {
	const enum = `[9007199254740993], {"a":1,"b":[]}, "\u0061", -0.5e1, 0, true`
	const bounds = `"minimum":-9007199254740993,"maximum":9007199254740992.25`
	for _, tt := range []struct{ property, right, wrong, fault string }{
		{`"enum":[` + enum + `]`,
			`[9007199254740993.0]; {"b":[],"a":1e0}; "a"; -5; -0; 0e99999999999999999999`,
			`[9007199254740992]; {"a":1}; {"a":1,"c":[]}; {"a":1,"a":1}; {"a":1,"b":[],"c":1}; []; [9007199254740993,1]; 5; 1e999999999999; false`,
			"one of " + enum},
		{`"type":"number",` + bounds, `9007199254740992.25; 1e-400; -1`, `9007199254740992.26; 1e400; 1e99999999999999999999`, "at most 9007199254740992.25"},
		{`"type":"number",` + bounds, `-9007199254740993; -90071992547409930e-1; 0`, `-9007199254740993.1; -1e400; -1e99999999999999999999`, "at least -9007199254740993"},
	} {
		var trials []trial
		for _, v := range strings.Split(tt.right, "; ") {
			trials = append(trials, trial{`{"v":` + v + `}`, `{"v":` + v + `}`})
		}
		for _, v := range strings.Split(tt.wrong, "; ") {
			trials = append(trials, trial{`{"v":` + v + `}`, "! v must be " + tt.fault + ", got " + v})
		}
		hand[json.RawMessage](`{"type":"object","properties":{"v":{`+tt.property+`}}}`)(t, trials...)
	}
}

// A value of 1 MB that is not in an enum costs a multiple of its text, and not an object for each of its parts.
func TestWrongValueOfAnEnumIsCheap(t *testing.T) {
	enum := json.RawMessage(`{"type":"object","properties":{"v":{"enum":[1,[[2]],"a"]}}}`)
	listed := (&schemaParser{why: forArguments}).parse(enum, "x", anything)
	// Values of the enum that are lists are compared with the beginning only.
	enum = json.RawMessage(`{"type":"object","properties":{"v":{"enum":[` + strings.Repeat(`["a",2],`, 100) + `0]}}}`)
	many := (&schemaParser{why: forArguments}).parse(enum, "x", anything)
	args := []byte(`{"v":[` + strings.Repeat(`"a",`, 100_000) + `0]}`)
	if n := testing.AllocsPerRun(1, func() { read(args, fromCall, []*schema{many}) }); n > 2000 {
		t.Errorf("%v allocations for an enum of 100 lists", n)
	}
	for _, part := range []string{`{"a":[1,2]},`, `"a",`, `[[2]],`} {
		args := []byte(`{"v":[` + strings.Repeat(part, 100_000) + `0]}`)
		if n := testing.AllocsPerRun(1, func() { read(args, fromCall, []*schema{listed}) }); n > 100 {
			t.Errorf("%s: %v allocations", part, n)
		}
	}
}

type counts struct {
	M map[string]int `json:"m"`
}

func (counts) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":["integer","null"]}}}}`)
}

// A key of a map is data, so a null is delivered if the Go type holds it, and is a fault otherwise. It is never left out,
// as it was: "null removes one" would do nothing, and say that it succeeded.
func TestNullOfAKey(t *testing.T) {
	tool := func(add func(*Server)) func(...trial) {
		s := &Server{}
		add(s)
		return func(trials ...trial) { try(t, s, trials...) }
	}
	type pointers struct {
		Labels map[string]*string `json:"labels"`
	}
	tool(toolOf[pointers])(
		trial{`{"labels":{"env":null,"team":"x"}}`, `{"labels":{"env":null,"team":"x"}}`},
		trial{`{"labels":{"env":5}}`, `{"labels":{"env":"5"}}`},
		trial{`{"labels":{"env":true}}`, "! labels.env must be a string, got true"})
	tool(toolOf[map[string]*point])(trial{`{"a":null}`, `{"a":null}`}, trial{`{"a":{"x":1}}`, `{"a":{"x":1}}`})
	tool(toolOf[map[string][]string])(trial{`{"a":null,"b":"","c":"x"}`, `{"a":null,"b":null,"c":["x"]}`})
	tool(toolOf[map[string]map[string]*int])(trial{`{"a":null,"b":{"c":null}}`, `{"a":null,"b":{"c":null}}`}, trial{`{"b":{"c":"x"}}`,
		`! b.c must be an integer, got "x"`})
	tool(toolOf[map[string]*namedColor])(trial{`{"a":null,"b":"red"}`, `{"a":null,"b":"red"}`}, trial{`{"a":"green"}`, `! a must be one of "red", "blue", got "green"`})
	tool(toolOf[map[string]*anyValue])(trial{`{"a":null,"b":[1]}`, `{"a":null,"b":[1]}`})
	tool(toolOf[map[string][]*int])(trial{`{"a":[null]}`, "! a[0] must be an integer, got null"})
	tool(toolOf[map[string]string])(trial{`{"a":null}`, "! a must be a string, got null"})
	tool(toolOf[map[string]point])(trial{`{"a":null}`, "! a must be an object, got null"}, trial{`{"a":{"x":null}}`, "! a.x must be an integer, got null"})
	// Inside of a type that contains itself, which clients are shown as a plain object, the Go type decides alone.
	type tree struct {
		Labels map[string]string   `json:"labels,omitempty"`
		Notes  map[string]*string  `json:"notes,omitempty"`
		Lists  map[string][]string `json:"lists,omitempty"`
		Any    map[string]any      `json:"any,omitempty"`
		Kids   []tree              `json:"kids,omitempty"`
	}
	tool(toolOf[tree])(
		trial{`{"kids":[{"labels":{"env":null}}]}`, "! kids[0].labels.env must be a string, got null"},
		trial{`{"kids":[{"kids":[{"labels":{"a":"b","env":null}}]}]}`, "! kids[0].kids[0].labels.env must be a string, got null"},
		trial{`{"kids":[{"labels":null,"notes":{"a":null},"lists":{"a":null},"any":{"a":null}}]}`, `{"kids":[{"notes":{"a":null},"lists":{"a":null},"any":{"a":null}}]}`})
	tool(func(s *Server) {
		byHand[tree](s, `{"type":"object","properties":{"labels":{"type":"object","additionalProperties":{"type":["string","null"]}},"kids":{"type":"array","items":{"type":"object"}}}}`)
	})(trial{`{"labels":{"a":null},"kids":[{"labels":{"b":null}}]}`, `{"labels":{"a":""},"kids":[{"labels":{"b":""}}]}`})
	// So it does inside of a type whose JSONSchema counts.
	tool(toolOf[struct{ C counts }])(trial{`{"C":{"m":{"a":null,"b":1}}}`, `{"C":{"m":{"a":0,"b":1}}}`}, trial{`{"C":{"m":{"b":"x"}}}`, `! C.m.b must be an integer or null, got "x"`})
	// By hand the schema decides, whatever In is.
	for _, add := range []func(*Server, string){byHand[map[string]*string], byHand[json.RawMessage], byHand[map[string]any], byHand[any]} {
		s := &Server{}
		add(s, `{"type":"object","additionalProperties":{"type":"string"}}`)
		try(t, s, trial{`{"a":null}`, "! a must be a string, got null"})
		s = &Server{}
		add(s, `{"type":"object","properties":{"b":{"type":"string"}},"additionalProperties":{"type":["string","null"]}}`)
		try(t, s, trial{`{"a":null,"b":null}`, `{"a":null}`})
	}
}

// An anyValue is shown as a schema without a type.
type anyValue struct{ json.RawMessage }

func (anyValue) JSONSchema() json.RawMessage { return json.RawMessage(`{"description":"anything"}`) }

// A field of In may be described only by additionalProperties of a schema by hand, or not at all. The Go type says then
// what is valid.
func TestFieldsThatAreNotListed(t *testing.T) {
	type in struct {
		M  map[string]int8 `json:"m"`
		U  uint8           `json:"u"`
		LP []*point        `json:"lp"`
		G  string          `json:"g"`
		L  []string        `json:"l"`
	}
	const rest = `"u":0,"lp":null,"g":"","l":null}`
	hand[in](openSchema)(t,
		trial{`{"m":{"K":null}}`, `{"m":{"K":0},` + rest},           // encoding/json stores a null in each type, and the key stays
		trial{`{"u":"null"}`, `! u must be an integer, got "null"`}, // but a text is not converted to a null
		trial{`{"lp":"null"}`, `! lp must be an array, got "null"`},
		trial{`{"l":""}`, `{"m":null,` + rest}, // except for a list of texts
		trial{`{"l":"null"}`, `{"m":null,` + rest},
		trial{`{"l":"a","u":"7"}`, `{"m":null,"u":7,"lp":null,"g":"","l":["a"]}`})
	hand[in](`{"type":"object","properties":{},"additionalProperties":{"type":"array"}}`)(t,
		trial{`{"G":null}`, "! G must be an array, got null"},
		trial{`{"G":[]}`, "! G is unknown (there is m, u, lp, g, l)"})
	hand[in](`{"type":"object","properties":{},"additionalProperties":{"type":"integer"}}`)(t,
		trial{`{"u":511}`, "! u must be at most 255, got 511"})
}

// An error quotes only the beginning of what the client sent, cut between characters, and
// names only some of many faults.
func TestArgumentErrorsAreShort(t *testing.T) {
	type in struct {
		N int
		S string `enum:"a"`
		D string `format:"date"`
	}
	for shift := range 4 {
		long := strings.Repeat("x", shift) + strings.Repeat("é€😀", 60)
		s := &Server{}
		toolOf[in](s)
		_, results := callX(t, s, `{"N":"`+long+`"}`, `{"N":["`+long+`"]}`, `{"N":1,"S":"`+long+`"}`, `{"N":1,"S":"a","D":"`+long+`"}`, `{"`+long+`":1}`)
		for _, r := range results {
			if got := r.text(); !r.IsError || strings.ContainsRune(got, utf8.RuneError) || strings.Contains(got, `\x`) || len(got) > 400 {
				t.Errorf("%q", got)
			}
		}
	}
	s := &Server{}
	toolOf[struct{ L []int }](s)
	_, results := callX(t, s, `{`+strings.Repeat(`"L":"x",`, 100)+`"L":[]}`, `{"L":[`+strings.Repeat(`1e99,`, 1000)+`1]}`)
	for _, r := range results {
		if got := r.text(); !r.IsError || len(got) > 1000 || strings.Contains(got, "\n") {
			t.Errorf("got %q", got)
		}
	}
	if got := results[1].text(); !strings.HasSuffix(got, "got 1e99; there may be more") {
		t.Errorf("got %q", got)
	}
	// Checking stops then. A value that is long is not copied to be quoted.
	type list struct {
		L []int
		E string `enum:"a"`
	}
	typed, _ := derive(reflect.TypeFor[list](), "", forArguments)
	for _, args := range []string{
		`{` + strings.Repeat(`"L":"x",`, 10000) + `"L":[]}`,
		`{"L":[` + strings.Repeat(`"x",`, 10000) + `1]}`,
		`{"E":[` + strings.Repeat(`1,`, 10000) + `1]}`,
		`{"L":{"a":[` + strings.Repeat(`1,`, 10000) + `1]}}`,
	} {
		var v list
		if n := testing.AllocsPerRun(1, func() { (&rules{[]*schema{typed}, typed}).unmarshal([]byte(args), &v, fromCall) }); n > 400 {
			t.Errorf("%.20s: %v allocations", args, n)
		}
	}
}

// Dates and times are checked as RFC 3339 has them.
func TestFormats(t *testing.T) {
	for _, tt := range []struct {
		format, good, bad string
	}{
		{"date", "2026-11-21 2024-02-29 2000-02-29 0001-01-31 2026-04-30 2026-12-31",
			"2026-11-31 2026-02-29 1900-02-29 2026-00-10 2026-13-01 2026-01-00 2026-01-32 2026-04-31 2026-1-1 2026-01-011 x 26-01-01 2026/01/01 ２026-01-01"},
		{"date-time", "2026-11-21T00:00:00Z 2026-11-21T23:59:59.123456789123+05:30 2026-11-21T12:00:00.5-11:00",
			"2026-11-21 2026-12-31T23:59:60Z 2026-11-21t12:00:00Z 2026-11-21T12:00:00z 2026-11-21T24:00:00Z 2026-11-21T12:60:00Z 2026-11-21T12:00:00 2026-11-21T12:00:00.Z 2026-11-21T12:00Z 2026-11-21T12:00:00Z0 2026-11-21T12:00:0000Z 2026-02-30T12:00:00Z T 2026-11-21T1:00:00Z 2026-11-21T12:00:00,5Z 2026-11-21T12:00:00 aıııııı:ıııı"},
	} {
		for _, s := range strings.Fields(tt.good) {
			if !isWellFormed(tt.format, s) {
				t.Errorf("%s is not a %s", s, tt.format)
			}
		}
		for _, s := range strings.Fields(tt.bad) {
			if isWellFormed(tt.format, s) {
				t.Errorf("%s is a %s", s, tt.format)
			}
		}
	}
}

// The argument wait_for_previous, which some hosts add to every call, is ignored unless the
// tool has such an argument.
func TestWaitForPrevious(t *testing.T) {
	closed := func(properties string) string {
		return `{"type":"object","additionalProperties":false,"properties":{` + properties + `}}`
	}
	for _, value := range []string{"true", "false", "null", `"yes"`, "5", `{"a":[]}`} {
		arg := `"wait_for_previous":` + value
		derived[struct{ N int }](t, trial{`{"N":1,` + arg + `}`, `{"N":1}`}, trial{`{` + arg + `,` + arg + `,"N":1}`, `{"N":1}`}, trial{`{` + arg + `}`, "! N is required"})
		derived[none](t, trial{`{` + arg + `}`, `{}`})
		hand[json.RawMessage](`{"type":"object","properties":{"N":{"type":"integer"}},"additionalProperties":{"type":"integer"}}`)(t,
			trial{`{"N":"1","wait\u005ffor_previous":` + value + `,"b":2}`, `{"N":1,"b":2}`})
		derived[map[string]int](t, trial{`{` + arg + `,"a":1}`, `{"a":1}`})
		hand[json.RawMessage](closed(`"a":{}`))(t, trial{`{"a":[1],` + arg + `}`, `{"a":[1]}`})
		hand[json.RawMessage](closed(`"wait_for_previous":{}`))(t, trial{`{` + arg + `}`, `{` + arg + `}`})
		hand[json.RawMessage](objectSchema)(t, trial{`{` + arg + `}`, `{}`}, trial{`{"d":{` + arg + `}}`, `{"d":{` + arg + `}}`})
		hand[struct{ N int }](closed(`"N":{}`))(t, trial{`{"N":1,` + arg + `}`, `{"N":1}`})
	}
	derived[struct {
		W bool            `json:"wait_for_previous"`
		D struct{ N int } `json:"d,omitzero"`
	}](t, trial{`{"wait_for_previous":true}`, `{"wait_for_previous":true}`}, trial{`{"wait_for_previous":5}`, "! wait_for_previous must be a boolean, got 5"},
		trial{`{"wait_for_previous":true,"d":{"N":1,"wait_for_previous":true}}`, "! d.wait_for_previous is unknown (there is N)"})
	// A default was not sent by a host.
	hand[json.RawMessage](`{"type":"object","properties":{"a":{"type":"object","default":{"wait_for_previous":true,"b":2}}}}`)(t,
		trial{`{}`, `{"a":{"wait_for_previous":true,"b":2}}`})
}

// A schema written by hand is listed as it is, and a handler that reads raw JSON receives the
// arguments as they were sent. They are an object also if there are none.
func TestSchemaByHandIsSentUnchanged(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "x", InputSchema: json.RawMessage("{\n  \"type\": \"object\",\n  \"properties\":{}, \"oneOf\": [ { \"required\": [\"a b\"] } ]\n}\n")},
		func(_ context.Context, args json.RawMessage) (string, error) { return string(args), nil })
	inBubble(t, s, legacyPV, func(c *client) {
		c.play(`
			> 1 tools/list
			< 1 {"tools":[{"name":"x","inputSchema":{"type":"object","properties":{},"oneOf":[{"required":["a b"]}]}}]}
			> 2 call x
			< 2 said {}
			> 3 call x {"n":1.0,"m":null,"N":"\u0041"}
			< 3 said {"n":1.0,"m":null,"N":"\u0041"}
			> 4 call x {"n":1.0,"n":null}
			< 4 failed Invalid arguments: n came twice`)
	})
}

// Another call does not change what a method of In keeps.
func TestMethodsOfArgumentsMayKeepTheirBytes(t *testing.T) {
	var kept []keeper
	s := &Server{}
	AddTool(s, Tool{Name: "x", InputSchema: json.RawMessage(openSchema)}, func(_ context.Context, in struct{ K keeper }) (string, error) {
		kept = append(kept, in.K)
		return "", nil
	})
	callX(t, s, `{"K":[1]}`, `{"K":"x"}`)
	if got := fmt.Sprintf("%s", kept); got != `[{[1]} {"x"}]` {
		t.Errorf("kept %s", got)
	}
}

// A keeper keeps the bytes that it is given.
type keeper struct{ raw []byte }

func (k *keeper) UnmarshalJSON(raw []byte) error {
	k.raw = raw
	return nil
}

// A schema is refused if it is nested more deeply than arguments may be, and this takes no longer for a deeper one. Providers
// refuse more than ten levels.
func TestDeepSchemasByHandTakeLinearTime(t *testing.T) {
	nested := func(n int, before, inner, after string) string {
		return strings.Repeat(before, n) + inner + strings.Repeat(after, n)
	}
	for _, part := range [][2]string{{`{"type":"object","properties":{"a":`, "}}"}, {`{"type":"array","items":`, "}"}, {`{"anyOf":[`, "]}"}} {
		mustBeLinear(t, 500, func(n int) time.Duration {
			schema := `{"type":"object","properties":{"a":` + nested(n, part[0], `{"type":"string"}`, part[1]) + "}}"
			begun := time.Now()
			wantPanic(t, " is nested too deeply", func() { byHand[json.RawMessage](&Server{}, schema) })
			return time.Since(begun)
		})
	}
	list := func(s *Server, n int) {
		byHand[json.RawMessage](s, `{"type":"object","properties":{"a":`+nested(n, `{"type":"array","items":`, `{"type":"string"}`, "}")+"}}")
	}
	wantPanic(t, strings.Repeat(".items", 97)+".type is nested too deeply", func() { list(&Server{}, 97) })
	s := &Server{}
	diagnostics(s)
	list(s, 96)
	try(t, s, trial{`{"a":` + nested(96, "[", "true", "]") + "}", "! a" + strings.Repeat("[0]", 96) + " must be a string, got true"})
	// What is not described may be nested more deeply.
	type chain struct{ Next *chain }
	sent := `{"Next":` + nested(98, `{"Next":`, `%s`, "}") + "}"
	hand[chain](`{"type":"object","properties":{}}`)(t, trial{fmt.Sprintf(sent, `{"q":[[1]]}`), fmt.Sprintf(sent, `{"Next":null}`)},
		trial{fmt.Sprintf(sent, `{"Next":{}}`), "! Next" + strings.Repeat(".Next", 99) + " is nested too deeply"})
}

// ---- results ----

// Each type that a handler may return becomes the content that the documentation promises.
func TestResults(t *testing.T) {
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
	const noText = "The result cannot be sent: the bytes are not a text in UTF-8: return mcp.Image, mcp.Audio or mcp.EmbeddedResource"
	type bytesOf []byte
	r := reply{Str: "<&>"}
	var nilReply *reply
	var nilResult *Result
	hi := Text("hi")
	for _, tt := range []struct {
		name   string
		add    func(*Server)
		result string // in 2025-11-25; or an error
		modern string // structuredContent that only the modern era has
	}{
		{"string", out("hi", nil), texts("hi"), ""},
		{"empty string", out("", nil), texts(""), ""},
		{"content", out(Text("hi"), nil), texts("hi"), ""},
		{"contents", out([]Content{Text("a"), {Text: "no type is text"}}, nil), texts("a", "no type is text"), ""},
		{"pointer to content", out(&hi, nil), texts("hi"), ""},
		{"any: pointer to content", out[any](&hi, nil), texts("hi"), ""},
		{"nil pointer to content", out((*Content)(nil), nil), texts(), ""},
		{"nil contents", out([]Content(nil), nil), texts(), ""},
		{"nothing", out(none{}, nil), texts(), ""},
		{"result", out(&Result{Content: []Content{Text("a")}, StructuredContent: 1, IsError: true}, nil), isError("a"), "1"},
		{"nil result", out(nilResult, nil), texts(), ""},
		{"struct", out(r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"pointer", out(&r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"nil pointer", out(nilReply, nil), texts(), ""},
		{"slice", out([]string{"a"}, nil), texts(`["a"]`), `["a"]`},
		{"nil slice", out([]string(nil), nil), texts(`[]`), `[]`},
		{"map", out(map[string]any{"b": nil, "a": []int(nil)}, nil), texts(`{"a":null,"b":null}`) + `,"structuredContent":{"a":null,"b":null}`, ""},
		{"nil map", out(map[string]int(nil), nil), texts(`{}`) + `,"structuredContent":{}`, ""},
		{"number", out(1.5, nil), texts(`1.5`), "1.5"},
		{"raw", out(json.RawMessage("{\n\"a\" : 1}"), nil), texts(`{"a":1}`) + `,"structuredContent":{"a":1}`, ""},
		{"any: nil", out[any](nil, nil), texts(), ""},
		{"any: string", out[any]("hi", nil), texts("hi"), ""},
		{"any: struct", out[any](r, nil), texts(empty) + `,"structuredContent":` + empty, ""},
		{"error", out("not sent", errors.New("disk full\n<now>")), isError("disk full\n<now>"), ""},
		{"empty error", out("", errors.New("")), isError("failed, with an error that has no text"), ""},
		{"empty error after %w", out("", fmt.Errorf("%w", errors.Join(errors.New("")))), isError("failed, with an error that has no text"), ""},
		{"empty protocol error", out("", error(&Error{Code: 7})), "! 7 failed, with an error that has no text", ""},
		{"error without content", out(&Result{IsError: true}, nil), isError("failed, with an error that has no text"), ""},
		{"error with an image", out(&Result{Content: []Content{Image([]byte("GIF8"), "")}, IsError: true}, nil),
			`"content":[{"type":"image","data":"R0lGOA==","mimeType":"image/gif"}],"isError":true`, ""},
		{"deadline of its own", out("", context.DeadlineExceeded), isError("context deadline exceeded"), ""},
		{"cancellation of its own", out("", context.Canceled), isError("context canceled"), ""},
		{"protocol error", out("", error(&Error{Code: 7, Message: "no", Data: map[string]int{"a": 1}})), `! 7 no {"a":1}`, ""},
		{"wrapped protocol error", out("", fmt.Errorf("so: %w", &Error{Code: -32602, Message: "no"})), "! -32602 no", ""},
		{"protocol error without a code", out("", error(&Error{Message: "no"})), "! -32603 no", ""},
		{"joined errors", out("", errors.Join(errors.New("a"), errors.New("b"))), isError("a\nb"), ""},
		{"not JSON", out(math.NaN(), nil), isError("The result cannot be sent: unsupported value: NaN"), ""},
		{"image", out(Image([]byte("GIF8"), "image/gif"), nil), `"content":[{"type":"image","data":"R0lGOA==","mimeType":"image/gif"}]`, ""},
		{"image without data", out(Image(nil, "image/png"), nil), isError(`The result cannot be sent: content of type "image" is unknown, or lacks its data, MIME type, link or resource`), ""},
		{"image without a type", out([]Content{Text("a"), Image([]byte{1}, "")}, nil), isError(`The result cannot be sent: content of type "image" is unknown, or lacks its data, MIME type, link or resource`), ""},
		{"audio without data", out(&Result{Content: []Content{{Type: "audio", MIMEType: "audio/wav"}}}, nil), isError(`The result cannot be sent: content of type "audio" is unknown, or lacks its data, MIME type, link or resource`), ""},
		{"audio", out(Audio([]byte{255, 254}, "audio/wav"), nil), `"content":[{"type":"audio","data":"//4=","mimeType":"audio/wav"}]`, ""},
		{"method of the pointer", out(&Result{StructuredContent: ptrJSON{A: 1}}, nil), texts(`{"p":1}`) + `,"structuredContent":{"p":1}`, ""},
		{"result without content", out(&Result{StructuredContent: []int{1}}, nil), texts(`[1]`), "[1]"},
		{"result with empty content", out(&Result{Content: []Content{}, StructuredContent: r, IsError: true}, nil), texts(empty) + `,"structuredContent":` + empty + `,"isError":true`, ""},
		{"result with content", out(Result{Content: []Content{Text("")}, StructuredContent: r}, nil), texts("") + `,"structuredContent":` + empty, ""},
		{"result of null", out(&Result{StructuredContent: nilReply}, nil), texts(), ""},
		{"result with a promise", out(&Result{StructuredContent: r}, nil, objectSchema), texts(empty) + `,"structuredContent":` + empty, ""},
		{"bytes", out([]byte("<hi>\n\u2028é"), nil), texts("<hi>\n\u2028é"), ""},
		{"bytes of JSON", out([]byte(`{"a":1}`), nil), texts(`{"a":1}`), ""},
		{"no bytes", out([]byte{}, nil), texts(""), ""},
		{"nil bytes", out([]byte(nil), nil), texts(""), ""},
		{"any: bytes", out[any]([]byte("hi"), nil), texts("hi"), ""},
		{"any: nil bytes", out[any]([]byte(nil), nil), texts(""), ""},
		{"bytes that are not a text", out([]byte("a\xff"), nil), isError(noText), ""},
		{"any: bytes that are not a text", out[any]([]byte("\x89PNG"), nil), isError(noText), ""},
		{"bytes and an error", out([]byte("a\xff"), errors.New("no")), isError("no"), ""},
		{"bytes of a type of their own", out(bytesOf("hi"), nil), texts(`"aGk="`), `"aGk="`},
		{"bytes in a struct", out(struct{ B []byte }{[]byte("hi")}, nil), texts(`{"B":"aGk="}`) + `,"structuredContent":{"B":"aGk="}`, ""},
		{"raw bytes", out[any](json.RawMessage(`"hi"`), nil), texts(`"hi"`), `"hi"`},
		{"link", out(ResourceLink(Resource{URI: "x:a", Name: "a"}), nil), `"content":[{"type":"resource_link","uri":"x:a","name":"a"}]`, ""},
		{"resource", out(EmbeddedResource(ResourceContents{URI: "x:a"}), nil), `"content":[{"type":"resource","resource":{"uri":"x:a","text":""}}]`, ""},
		{"blob", out(EmbeddedResource(ResourceContents{URI: "x:a", MIMEType: "x/y", Blob: []byte("b"), Text: "ignored"}), nil),
			`"content":[{"type":"resource","resource":{"uri":"x:a","mimeType":"x/y","blob":"Yg=="}}]`, ""},
		// An output that is not an object is sent as text and, if the output schema allows it, as
		// structured output. Otherwise clients would refuse it, so the call fails.
		{"promised text", out[any]("A", nil, `{"type":"string"}`), texts(`"A"`), `"A"`},
		{"promised number", out[any](5, nil, `{"type":"integer"}`), texts("5"), "5"},
		{"promised anything", out[any](5, nil, `{"properties":{}}`), texts("5"), "5"},
		{"promised bytes", out[any]([]byte{0x80}, nil, `{"type":"string","contentEncoding":"base64"}`), texts(`"gA=="`), `"gA=="`},
		{"promised object", out[any]("A", nil, objectSchema), isError("The result cannot be sent: there is no structured output, or it is not an object, as the output schema promises"), ""},
		{"promised object in a Result", out(&Result{StructuredContent: []int{1}}, nil, objectSchema),
			isError("The result cannot be sent: there is no structured output, or it is not an object, as the output schema promises"), ""},
		{"a list where the members of an object are described", out[any]([]any{nil}, nil,
			`{"properties":{},"additionalProperties":{"type":"string"}}`), texts(`[null]`), `[null]`},
		{"annotated", out(Content{Text: "a", Annotations: Annotations{Audience: []Role{RoleUser}}, Meta: map[string]any{"a": nil}}, nil),
			`"content":[{"type":"text","text":"a","annotations":{"audience":["user"]},"_meta":{"a":null}}]`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Server{}
			tt.add(s)
			legacy, modern := " {"+tt.result+"}", "+ {"+tt.result+"}"
			switch {
			case tt.modern != "":
				legacy = " {" + tt.result + `,"structuredContent":{"result":` + tt.modern + "}}"
				modern = "+ {" + tt.result + `,"structuredContent":` + tt.modern + "}"
			case tt.result[0] == '!':
				legacy, modern = tt.result, tt.result
			}
			inBubble(t, s, legacyPV, func(c *client) {
				c.play("> 1 call x {}", "< 1"+legacy, "> 2+ call x", "< 2"+modern+ping)
			})
		})
	}
}

type (
	writesNull struct{ N int } // JSON, by a method of the value
	pairOf     struct{ A, B int }
)

func (w writesNull) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// A nil slice or map is written as an empty one. A pointer in a struct is omitted if it is nil or
// points to nil. In a list or a map a nil pointer is null, unless it is one to a list or a map. A
// value that JSON cannot hold is an error.
func TestNil(t *testing.T) {
	type nils struct {
		L         []int
		M         map[string]int
		B         []byte
		P         *int
		I         any
		E         *[]int `json:",omitempty"`
		Null, Nil *writesNull
		Twice     **int
	}
	type embedding struct {
		*nils
		Own *json.RawMessage
	}
	const written = `{"L":[1],"M":{},"B":"","I":null}`
	set := nils{L: []int{1}, Null: &writesNull{}, Twice: new(*int)}
	for _, test := range []struct {
		v    any
		want string // "" for an error
	}{
		{nils{}, `{"L":[],"M":{},"B":"","I":null}`},
		{(*nils)(nil), "null"},
		{nil, "null"},
		{[]*int{nil}, "[null]"},
		{[]*ptrJSON{nil, {A: 1}, nil}, `[null,{"p":1},null]`},
		{[][]map[int]bool{nil, {nil}}, "[[],[{}]]"},
		{map[string]*int{"a": nil}, `{"a":null}`},
		{[]*map[string]int{nil, new(map[string]int)}, "[{},{}]"},
		{map[string]*nils{"a": nil}, `{"a":null}`},
		{struct{ R json.RawMessage }{}, `{"R":null}`},
		{struct{ J json.Marshaler }{}, `{"J":null}`},
		{map[int]nils{-5: set}, `{"-5":` + written + `}`},
		{map[lang]*nils{"x\n": &set}, `{"x\n":` + written + `}`},
		{map[time.Month][]nils{1: {set}}, `{"1":[` + written + `]}`},
		{map[string]*int{"\xff": nil}, "{\"\ufffd\":null}"},
		{embedding{&set, ptr(json.RawMessage("null"))}, written},
		{embedding{}, `{}`},
		{"<&>\u2028\xff", "\"<&>\\u2028\ufffd\""},
		{math.NaN(), ""},
		{make(chan int), ""},
		{map[struct{}]int{{}: 1}, ""},
	} {
		raw, err := marshal(test.v)
		got := strings.ReplaceAll(string(raw), `\ufffd`, "\ufffd") // Go versions differ
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%T: got %s %v, want %s", test.v, got, err, test.want)
		}
	}
}

// The first bytes of a picture decide on its type. If they are of no known one, the given type must be none of those,
// because a provider would refuse the rest of the conversation. This holds wherever a Content is.
func TestPicturesAreWhatTheirBytesSay(t *testing.T) {
	const (
		png, jpeg, gif = "\x89PNG\r\n\x1a\n...", "\xff\xd8\xff\xe0...", "GIF87a..."
		webp, wav      = "RIFF\x24\x00\x00\x00WEBPVP8 ", "RIFF\x24\x00\x00\x00WAVEfmt "
	)
	failure := func(begin, typ string) string {
		return `content of type "image": the data begins with ` + strconv.Quote(begin) + " and is not a file of type " + typ +
			": Image takes the bytes of such a file, not base64"
	}
	for _, test := range []struct{ data, typ, want string }{
		{png, "image/png", "image/png"},
		{jpeg, "image/png", "image/jpeg"},
		{jpeg, "image/jpg", "image/jpeg"},
		{gif, "image/webp", "image/gif"},
		{webp, "image/gif", "image/webp"},
		{png, "application/octet-stream", "image/png"},
		{png, "", "image/png"},
		{"<svg>", "image/svg+xml", "image/svg+xml"},
		{"BM....", "image/bmp", "image/bmp"},
		{"iVBORw0KGgoAAAANSUhEUg==", "image/png", failure("iVBORw0KGgoAAAAN", "image/png")},
		{"<!DOCTYPE html>", "image/jpeg", failure("<!DOCTYPE html>", "image/jpeg")},
		{"<html>", "image/jpg", failure("<html>", "image/jpg")},
		{"/9j/4AAQ", "IMAGE/JPEG", failure("/9j/4AAQ", "IMAGE/JPEG")},
		{"R0lGODdh", "image/gif; base64", failure("R0lGODdh", "image/gif; base64")},
		{wav, "image/webp", failure(wav[:16], "image/webp")},
		{"RIFF", "image/webp", failure("RIFF", "image/webp")},
		{"\x89PN", "image/png", failure("\x89PN", "image/png")},
	} {
		c := Image([]byte(test.data), test.typ)
		s := &Server{}
		out(c, nil)(s)
		s.AddPrompt(Prompt{Name: "x"}, promptOf(c))
		block := `{"type":"image","data":` + quote(base64.StdEncoding.EncodeToString(c.Data)) + `,"mimeType":` + quote(test.want) + `}`
		results := []string{`1+ {"content":[` + block + `]}`, `2 {"content":[` + block + `]}`, `3 {"messages":[{"role":"user","content":` + block + `}]}`}
		if !strings.HasPrefix(test.want, "image/") {
			text := "The result cannot be sent: " + test.want
			results = []string{"1+ failed " + text, "2 failed " + text, "3! -32603 " + text}
		}
		inBubble(t, s, legacyPV, func(client *client) {
			client.send(`1+ call x`, `2 call x`, `3 prompts/get {"name":"x"}`)
			client.want(results...)
		})
		// A Content in structured output, or in params of Ask, is the same block.
		if raw, err := marshal([]Content{c}); err == nil && !sameJSON(t, string(raw), "["+block+"]") || err != nil && !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("got %s, %v", raw, err)
		}
	}
	// Recordings, and blobs of resources, keep their types.
	for _, c := range []Content{Audio([]byte(png), "audio/wav"), EmbeddedResource(ResourceContents{URI: "x:a", MIMEType: "image/png", Blob: []byte("<")})} {
		if raw, err := json.Marshal(c); err != nil || !strings.Contains(string(raw), "audio/wav") && !strings.Contains(string(raw), "image/png") {
			t.Errorf("got %s, %v", raw, err)
		}
	}
}

// What is not UTF-8 is sent with U+FFFD, and reported with the name of the tool, the prompt or the resource.
func TestTextsThatAreNotUTF8AreReported(t *testing.T) {
	s := &Server{Name: "demo", Version: "1.0.0"}
	var text string
	add := func(name string, h func(ctx context.Context) (any, error)) {
		AddTool(s, Tool{Name: name}, func(ctx context.Context, _ none) (any, error) { return h(ctx) })
	}
	add("string", func(context.Context) (any, error) { return text, nil })
	add("content", func(context.Context) (any, error) { return Text(text), nil })
	add("error", func(context.Context) (any, error) { return nil, errors.New(text) })
	add("fault", func(context.Context) (any, error) { return nil, &Error{Code: 5, Message: text} })
	add("failed", func(context.Context) (any, error) { return &Result{Content: []Content{Text(text)}, IsError: true}, nil })
	add("embedded", func(context.Context) (any, error) {
		return EmbeddedResource(ResourceContents{URI: "x:a", Text: text}), nil
	})
	s.AddPrompt(Prompt{Name: "prompt", Arguments: []PromptArgument{{Name: "a", Complete: func(context.Context, string, map[string]string) ([]string, error) {
		return []string{text}, nil
	}}}}, func(context.Context, map[string]string) ([]PromptMessage, error) {
		return []PromptMessage{{Content: Text(text)}}, nil
	})
	s.AddResource(Resource{URI: "x:{+rest}", Name: "a"}, func(context.Context, string, map[string]string) ([]ResourceContents, error) {
		return []ResourceContents{{Text: text}}, nil
	})
	type call struct{ request, name string }
	calls := []call{{`prompts/get {"name":"prompt"}`, "prompts/get prompt"}, {`resources/read {"uri":"x:f.png"}`, "resources/read x:f.png"},
		{`completion/complete {"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"a","value":""}}`, "completion/complete prompt"}}
	for _, name := range []string{"string", "content", "embedded", "error", "fault", "failed"} {
		calls = append(calls, call{`tools/call {"name":"` + name + `"}`, "tools/call " + name})
	}
	for _, text = range []string{"a\xff", "\xfcber", "C:\\\\\xfc", "\xed\xa0\x80", "fine", "\ufffd\u00fc", `\\ufffd`, `\\\\ufffd`} {
		for _, plus := range []string{"", "+"} {
			for _, test := range calls {
				said := diagnostics(s)
				inBubble(t, s, "2025-11-25", func(c *client) { c.ask("1" + plus + " " + test.request) })
				got, want := said.String(), ""
				if !utf8.ValidString(text) {
					want = "mcp: " + test.name + " (id 1): sent with U+FFFD in place of what is not UTF-8\n"
				}
				if got != want {
					t.Errorf("%q, %s%s: reported %q, want %q", text, test.request, plus, got, want)
				}
			}
		}
	}
}

// A result that cannot be sent fails the call. The model and ErrorLog receive the reason. Data of an error that cannot be sent is reported and omitted.
func TestUnsendableResultIsReported(t *testing.T) {
	s := &Server{}
	said := diagnostics(s)
	var c Content
	var text error
	AddTool(s, Tool{Name: "content"}, func(context.Context, none) (Content, error) { return c, nil })
	add(s, "error", func(context.Context) (string, error) { return "", text })
	s.AddPrompt(Prompt{Name: "x"}, func(context.Context, map[string]string) ([]PromptMessage, error) {
		return []PromptMessage{{Content: c}}, nil
	})
	s.AddResource(Resource{URI: "x:a", Name: "a"}, func(context.Context, string, map[string]string) ([]ResourceContents, error) {
		return []ResourceContents{{Meta: map[string]any{"a": func() {}}}}, nil
	})
	s.AddMethod("x/list", func(context.Context, json.RawMessage) (any, error) { return []int{1}, nil })
	s.AddMethod("x/get", func(context.Context, json.RawMessage) (any, error) { return ptrJSON{A: 2}, nil })
	s.AddMethod("x/nil", func(context.Context, json.RawMessage) (any, error) { return (*map[string]int)(nil), nil })
	s.AddMethod("x/none", func(context.Context, json.RawMessage) (any, error) { return (*ptrJSON)(nil), nil })
	check := func(request, response, reported string) {
		t.Helper()
		said.Reset()
		inBubble(t, s, legacyPV, func(c *client) {
			if got := c.ask("1 " + request); len(got) != 1 || !strings.Contains(got[0], response) {
				t.Errorf("%s: got %q, want %s", request, got, response)
			}
		})
		if got := said.String(); !strings.Contains(got, reported) || reported == "" && got != "" {
			t.Errorf("%s: reported %q, want %q", request, got, reported)
		}
	}
	const fails, failsTool = `"error":{"code":-32603,"message":"The result cannot be sent: `, `"result":{"content":[{"type":"text","text":"The result cannot be sent: `
	for reason, content := range map[string]Content{
		`content of type "video"`: {Type: "video"},
		`content of type "resource_link" is unknown, or lacks its data, MIME type, link or resource`: {Type: "resource_link"},
		`content of type "resource" is unknown, or lacks its data, MIME type, link or resource`:      {Type: "resource"},
		`content of type "text": unsupported value: NaN`:                                             {Text: "a", Meta: map[string]any{"a": math.NaN()}},
	} {
		c = content
		check(`tools/call {"name":"content"}`, failsTool, reason)
		check(`prompts/get {"name":"x"}`, fails, reason)
	}
	check(`resources/read {"uri":"x:a"}`, fails+`unsupported type: func()"`, "resources/read x:a (id 1): the result cannot be sent: unsupported type: func()")
	check("x/list", fails, "x/list (id 1): the result cannot be sent: the result of a method must be a JSON object")

	check("x/get", `"result":{"p":2}`, "")
	check("x/nil", `"result":{}`, "")
	check("x/none", `"result":{}`, "")
	fault := &Error{Code: 5, Message: "m", Data: func() {}}
	text = fault
	check(`tools/call {"name":"error"}`, `"error":{"code":5,"message":"m"}`, "tools/call error (id 1): the Data of the error cannot be sent: unsupported type: func()")
	fault.Data = ptrJSON{A: 1} // with a method of the pointer
	check(`tools/call {"name":"error"}`, `"error":{"code":5,"message":"m","data":{"p":1}}`, "")
}

// Content that a client would drop the result for fails the call, in each revision, also where the
// content is sent as a text, or where Out holds it. The text says what is wrong.
func TestInvalidContentFailsTheCall(t *testing.T) {
	link := func(r Resource) Content {
		r.URI, r.Name = cmp.Or(r.URI, "x:a"), cmp.Or(r.Name, "n")
		return ResourceLink(r)
	}
	type test struct {
		c    Content
		want string
	}
	tests := []test{
		{ResourceLink(Resource{Name: "n"}), `content of type "resource_link": a URI must begin with a scheme, such as "file:"`},
		{ResourceLink(Resource{URI: "x:a"}), `content of type "resource_link": the name is missing`},
		{link(Resource{URI: "note://{id}"}), `content of type "resource_link": a URI must not have "{"`},
		{Content{Text: "a", Annotations: Annotations{LastModified: year10000}}, `content of type "text": annotations.lastModified must have a year of four digits, got 10000`},
		{link(Resource{Annotations: Annotations{Priority: 1.5}}), `content of type "resource_link": annotations.priority must be from 0 to 1, got 1.5`},
		{link(Resource{Icons: []Icon{{Src: "https://a", Theme: "blue"}}}), `content of type "resource_link": icons: theme must be`},
		{EmbeddedResource(ResourceContents{Text: "t"}), `content of type "resource": a URI must begin with a scheme, such as "file:"`},
		{Content{Text: "a", Annotations: Annotations{Audience: []Role{"system"}}}, `content of type "text": a role, or an audience, must be user or assistant, got "system"`},
		{Content{Type: "image", Data: []byte("a"), MIMEType: "image/png", Annotations: Annotations{Priority: math.NaN()}}, `content of type "image": annotations.priority must be from 0 to 1, got NaN`},
		{Content{Type: "audio", MIMEType: "audio/wav"}, `content of type "audio" is unknown, or lacks its data`},
	}
	for _, uris := range invalidURIs {
		for _, uri := range uris {
			tests = append(tests, test{link(Resource{URI: uri}), `content of type "resource_link": `},
				test{EmbeddedResource(ResourceContents{URI: uri}), `content of type "resource": `})
		}
	}
	for _, uri := range validURIs {
		tests = append(tests, test{link(Resource{URI: uri}), ""}, test{EmbeddedResource(ResourceContents{URI: uri}), ""})
	}
	s := &Server{}
	var content Content
	AddTool(s, Tool{Name: "content"}, func(context.Context, none) (Content, error) { return content, nil })
	AddTool(s, Tool{Name: "out"}, func(context.Context, none) (any, error) { return map[string]any{"list": []Content{content}}, nil })
	AddTool(s, Tool{Name: "result"}, func(context.Context, none) (*Result, error) {
		return &Result{Content: []Content{Text("a"), content}, IsError: true}, nil
	})
	s.AddPrompt(Prompt{Name: "p"}, func(context.Context, map[string]string) ([]PromptMessage, error) {
		return []PromptMessage{{"assistant", content}}, nil
	})
	for _, version := range []string{"2024-11-05", legacyPV, ""} {
		inBubble(t, s, version, func(c *client) {
			id := "1 "
			if version == "" {
				id = "1+ "
			}
			for _, test := range tests {
				content = test.c
				for _, request := range []string{`tools/call {"name":"content"}`, `tools/call {"name":"out"}`, `tools/call {"name":"result"}`, `prompts/get {"name":"p"}`} {
					var m struct {
						Result toolResult
						Error  struct {
							Code    int
							Message string
						}
					}
					got := c.ask(id + request)
					json.Unmarshal([]byte(got[0]), &m)
					text := cmp.Or(m.Error.Message, strings.TrimPrefix(m.Result.text(), "! "))
					if unsent := strings.HasPrefix(text, "The result cannot be sent: "); len(got) != 1 || unsent != (test.want != "") || !strings.Contains(text, test.want) ||
						unsent && m.Error.Code == 0 && !m.Result.IsError {
						t.Errorf("%s, %s, %+v: got %s, want %s", version, request, test.c, got, test.want)
					}
				}
			}
		})
	}
}

// writesText has only MarshalText, so it cannot be read.
type writesText int

func (writesText) MarshalText() ([]byte, error) { return []byte("red"), nil }

// A value that contains itself is an error of its own call. (A pointer to an interface that holds
// that pointer overflows the stack in encoding/json of Go 1.27.)
func TestValueThatContainsItself(t *testing.T) {
	list := []any{nil}
	list[0] = list
	type node struct{ Next any }
	ring := &node{}
	ring.Next = ring
	for name, v := range map[string]any{"list": list, "ring": ring} {
		s := &Server{}
		said := diagnostics(s)
		out[any](v, nil)(s)
		inBubble(t, s, legacyPV, func(c *client) {
			if got := c.ask(`1 tools/call {"name":"x"}`); len(got) != 1 || !strings.Contains(got[0], `"isError":true`) {
				t.Errorf("%s: got %.300q", name, got)
			}
			c.play("> "+pingLine, "< "+pongLine)
		})
		if !strings.Contains(said.String(), "the result cannot be sent: unsupported value: encountered a cycle") {
			t.Errorf("%s: reported %s", name, said)
		}
	}
}

// ---- lists ----

// lists are the four kinds of things that come in lists.
var lists = [listCount]struct {
	method, key, name string
	add               func(s *Server, name, description string)
	remove            func(s *Server, names ...string)
	change            string
}{
	{"tools/list", "tools", "name", func(s *Server, name, description string) {
		addEmpty(s, Tool{Name: name, Description: description})
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

// list requests a list, and returns the names, each followed by its description.
func (c *client) list(method, key, params string) (names string) {
	c.t.Helper()
	got := c.ask("1 " + method + " {" + params + "}")
	var answer struct{ Result map[string]json.RawMessage }
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &answer) != nil || answer.Result == nil || answer.Result["nextCursor"] != nil {
		c.t.Fatalf("%s {%s}: got %q", method, params, got)
	}
	var items []struct{ Name, Description string }
	if err := json.Unmarshal(answer.Result[key], &items); err != nil {
		c.t.Fatal(err)
	}
	for _, it := range items {
		names += it.Name + it.Description
	}
	return names
}

// Tools, prompts, resources and templates are listed, replaced and removed in the same way. A
// list has one page, so an empty cursor is the only valid one.
func TestLists(t *testing.T) {
	for _, list := range lists {
		for _, era := range eras {
			meta := ""
			if era.version == "" {
				meta = "," + modernParams
			}
			s := &Server{}
			for _, name := range "abcd" {
				list.add(s, string(name), "")
			}
			synctest.Test(t, func(t *testing.T) {
				c := serve(t, s)
				if era.version != "" { // without initialized, no change is notified
					c.ask("0 initialize 2025-11-25")
				}
				check := func(want string) {
					t.Helper()
					for _, cursor := range []string{`"unknown":1`, `"cursor":""`, `"cursor":null`} {
						if names := c.list(list.method, list.key, cursor+meta); names != want {
							t.Errorf("%s %s {%s}: got %q, want %q", era.name, list.method, cursor, names, want)
						}
					}
				}
				check("abcd")
				list.remove(s, "a", "d", "absent", "d")
				list.add(s, "e", "")
				list.add(s, "b", "!") // replaced in its place
				check("b!ce")
				list.add(s, "d", "") // new, so it is the last
				check("b!ced")
				list.remove(s, "b", "c", "d", "e")
				check("")
				for _, bad := range []string{`"1"`, `" "`, `5`, `["1"]`, `{}`, `false`} {
					c.play("> 2"+era.plus+" "+list.method+` {"cursor":`+bad+"}", "< 2! -32602 Invalid cursor")
				}
			})
		}
	}
}

// The time to remove or replace one of many does not depend on their number.
func TestRemovalTakesLinearTime(t *testing.T) {
	mustBeLinear(t, 2000, func(n int) time.Duration {
		s := &Server{}
		name := func(i int) string { return "x:" + strconv.Itoa(i) }
		start := time.Now()
		for i := range 2 * n { // each is replaced once
			s.AddResource(Resource{URI: name(i % n), Name: "n"}, texts(""))
		}
		for i := range n {
			s.RemoveResources(name(i))
		}
		took := time.Since(start)
		if l := &s.lists[resources]; len(l.byName) > 0 || l.inOrder.Len() > 0 || len(l.copied) > 0 {
			t.Errorf("%d, %d and %d are left", len(l.byName), l.inOrder.Len(), len(l.copied))
		}
		return took
	})
}

// CacheTTL and CachePublic are sent in the modern era only, in whole milliseconds.
func TestCacheHints(t *testing.T) {
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
		s := &Server{CacheTTL: test.ttl, CachePublic: test.public}
		for _, list := range lists {
			list.add(s, "a", "")
			list.add(s, "b", "")
		}
		inBubble(t, s, "2025-11-25", func(c *client) {
			for _, asked := range []string{`tools/list`, `prompts/list`, `resources/list`, `resources/templates/list`, `server/discover`,
				`resources/read {"uri":"x:a"}`, `resources/read {"uri":"x:7a"}`} {
				want := test.want
				if strings.HasPrefix(asked, "resources/read") { // its contents may change at any time
					want = `"ttlMs":0,"cacheScope":"private"`
				}
				if got := c.ask("1+ " + asked)[0]; !strings.Contains(got, want) {
					t.Errorf("%s: %s", asked, got)
				}
				if got := c.ask("1 " + asked)[0]; strings.Contains(got, "ttlMs") || strings.Contains(got, "cacheScope") {
					t.Errorf("legacy %s: %s", asked, got)
				}
			}
			for _, asked := range []string{`prompts/get {"name":"a"}`, `tools/call {"name":"a"}`, `resources/read {"uri":"x:nope"}`} {
				if got := c.ask("1+ " + asked)[0]; strings.Contains(got, "ttlMs") || strings.Contains(got, "cacheScope") {
					t.Errorf("%s: %s", asked, got)
				}
			}
		})
	}
}

// A tool that is not shown is neither listed nor callable, and the list is not cached. Enabled may
// call methods of the Server, because no lock is held.
func TestEnabled(t *testing.T) {
	s := &Server{CacheTTL: time.Minute, CachePublic: true}
	var seen []Request
	apps := func(ctx context.Context) bool {
		r := RequestFrom(ctx)
		seen = append(seen, r)
		s.RemoveTools("absent")       // takes Server.mu
		s.ResourceUpdated("x:absent") // and the lock of every session
		return strings.Contains(string(r.Capabilities), `"apps"`)
	}
	for i := range 9 {
		tool := Tool{Name: fmt.Sprint("t", i)}
		if i%3 != 0 {
			tool.Enabled = apps
		}
		addEmpty(s, tool)
	}
	const withApps = `{"experimental":{"apps":{}}}`
	inBubble(t, s, "", func(c *client) {
		got := c.ask("1+ tools/list") // is private and stale, because it differs between clients
		if !strings.Contains(got[0], `"ttlMs":0,"cacheScope":"private"`) {
			t.Errorf("got %s", got)
		}
		for capabilities, want := range map[string]string{`{}`: "t0t3t6", withApps: "t0t1t2t3t4t5t6t7t8"} {
			if names := c.list("tools/list", "tools", `"_meta":{"`+keyVersion+`":"2026-07-28","`+keyCaps+`":`+capabilities+`}`); names != want {
				t.Errorf("%s: got %q, want %q", capabilities, names, want)
			}
		}
		seen = nil
		for _, test := range []struct{ capabilities, arguments, want string }{
			{`{}`, `{}`, "5! -32602 Unknown tool: t1 (there is t0, t3, t6)"},
			{`{}`, `[]`, "5! -32602 Unknown tool: t1 (there is t0, t3, t6)"},
			{withApps, `5`, "5+ failed Invalid arguments: must be an object, got 5"},
			{withApps, `{}`, "5+ said"},
		} {
			c.caps = test.capabilities
			c.play("> 5+ call t1 "+test.arguments, "< "+test.want)
		}
		if len(seen) != 4 || seen[3].Name != "t1" || seen[3].Method != "tools/call" || string(seen[3].ID) != "5" {
			t.Errorf("called %d times, %+v", len(seen), seen)
		}
		c.initialize(legacyPV, withApps)
		c.play("> 6 call t2 {}", "< 6 said")
	})
}

// A panic in Enabled hides that tool alone, in lists and in calls, and is reported once for each tool, with its stack.
func TestEnabledPanics(t *testing.T) {
	for _, era := range eras {
		s := &Server{MaxConcurrent: 1}
		log := diagnostics(s)
		calls, params := 0, ""
		if era.plus != "" {
			params = modernParams
		}
		addEmpty(s, Tool{Name: "a"})
		addEmpty(s, Tool{Name: "user", Enabled: func(ctx context.Context) bool { return ctx.Value("user").(string) == "ann" }})
		addEmpty(s, Tool{Name: "sometimes", Enabled: func(context.Context) bool {
			if calls++; calls%2 == 1 {
				panic("not now")
			}
			return true
		}})
		inBubble(t, s, era.version, func(c *client) {
			for range 3 {
				c.list("tools/list", "tools", params)
				c.play("> 2"+era.plus+" call user", "< 2! -32602 Unknown tool: user (there is a)")
			}
			if names := c.list("tools/list", "tools", params); names != "asometimes" {
				t.Errorf("listed %q", names)
			}
			calls = 0
			c.play("> 2"+era.plus+" call sometimes", "< 2! -32602 Unknown tool: sometimes (there is a)")
			c.play("> 2"+era.plus+" call sometimes", "< 2"+era.plus+" said")
		})
		text := log.String()
		for _, want := range []string{`mcp: tool "user": Enabled panicked: interface conversion`, `mcp: tool "sometimes": Enabled panicked: not now`, "mcp_test.go:"} {
			if strings.Count(text, want) < 1 {
				t.Errorf("%s: no %q in %s", era.name, want, text)
			}
		}
		if n := strings.Count(text, "Enabled panicked"); n != 2 {
			t.Errorf("%s: reported %d times: %s", era.name, n, text)
		}
	}
}

// A list that lacks a change is followed by a notification of the change, in legacy sessions and
// on streams. A tool that is not shown is not listed, also if it is added meanwhile.
func TestListThatLacksAChange(t *testing.T) {
	s := &Server{}
	hidden := func(context.Context) bool { return false }
	late := ""
	addEmpty(s, Tool{Name: "a", Enabled: func(context.Context) bool {
		if late != "" {
			addEmpty(s, Tool{Name: late})
			addEmpty(s, Tool{Name: "hidden" + late, Enabled: hidden})
		}
		return true
	}})
	inBubble(t, s, legacyPV, func(c *client) {
		c.send(listenLine)
		c.recv()
		streamed := changed + ` {"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"}}`
		for _, late = range []string{"b", "c", ""} {
			got := c.ask("1 tools/list")
			i := slices.IndexFunc(got, func(line string) bool { return strings.Contains(line, `"tools":[`) })
			if i < 0 || strings.Contains(got[i], "hidden") || late != "" && strings.Contains(got[i], `"name":"`+late) {
				t.Fatalf("got %q", got)
			}
			if c.got = got[i+1:]; late != "" { // what follows the list
				c.wantInAnyOrder(streamed, changed)
			} else if len(got) != 1 {
				t.Errorf("got %q", got)
			}
		}
	})
}

// Other requests do not wait for a slow Enabled.
func TestSlowEnabled(t *testing.T) {
	s := &Server{}
	addEmpty(s, Tool{Name: "slow", Enabled: func(context.Context) bool { time.Sleep(time.Second); return true }})
	inBubble(t, s, legacyPV, func(c *client) {
		c.send("1 tools/list", "2 call slow", pingLine)
		c.want(pongLine)
		time.Sleep(time.Second)
		got := c.recv()
		slices.Sort(got) // they may come in any order
		if len(got) != 2 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":1,"result":{"tools":[`) || !sameJSON(t, got[1], "2 said") {
			t.Errorf("got %q", got)
		}
	})
}

// ---- resources and templates ----

// A resource is read as text or bytes, and an error has the code of its era.
func TestReadResource(t *testing.T) {
	s := &Server{}
	add := func(name string, err error, contents ...ResourceContents) {
		s.AddResource(Resource{URI: "demo://" + name, Name: name, MIMEType: "text/x"},
			func(context.Context, string, map[string]string) ([]ResourceContents, error) { return contents, err })
	}
	add("text", nil, ResourceContents{Text: "A\n<b>"})
	add("blob", nil, ResourceContents{Blob: []byte{0, 255}, Text: "ignored", MIMEType: "image/png"})
	add("empty", nil, ResourceContents{}, ResourceContents{Blob: []byte{}})
	add("many", nil, ResourceContents{URI: "demo://many/1", Text: "1"}, ResourceContents{URI: "demo://many/2", Meta: map[string]any{"k": "v"}})
	add("nothing", nil)
	add("own", nil, ResourceContents{URI: "demo://o/1"}, ResourceContents{URI: "note://my note"})
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
		{"own", `! -32603 The result cannot be sent: contents "note://my note": a URI must not have " ": escape it, as package net/url does`},
		{"t/a%20b/c/d", `{"contents":[{"uri":"demo://t/a%20b/c/d","text":"demo://t/a%20b/c/d map[x:a b y:c/d]"}]}`},
		{"gone", `! NOTFOUND Resource not found {"uri":"demo://gone"}`},
		{"unknown", `! NOTFOUND Resource not found {"uri":"demo://unknown"}`},
		{"burns", `! -32603 disk on fire`},
		{"refuses", `! 7 not you {"n":1}`},
		{"codeless", `! -32603 no code`},
		{"odd", `! -32603 The result cannot be sent: unsupported type: chan int`},
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
				c.play("> 1"+era.plus+` resources/read {"uri":"demo://`+test.uri+`"}`, "< 1"+answer+strings.Replace(test.want, "NOTFOUND", code, 1))
			})
		}
	}
	inBubble(t, s, "2025-03-26", func(c *client) {
		c.play(`
			> 2 resources/read {}
			< 2! -32602 Invalid params: uri is required
			> 3 resources/read {"uri":5}
			< 3! -32602 Invalid params: uri is required`)
	})
}

// A template matches the URIs that its expansion can make. Escapes are decoded once. No value
// contains "." or ".." as a segment, on its own or together with the text beside it.
func TestTemplates(t *testing.T) {
	for _, test := range []struct{ template, matches, refused string }{ // URIs and their values, with _ for a blank
		{"note://{id}", `note://7 id=7  note://{id} id={id}  note://a+b&c=d;e,f:g@h id=a+b&c=d;e,f:g@h  note://é id=é`,
			`note:// note:/7 Note://7 note://7/8 note://7/ note://7?q note://7#f xnote://7`},
		{"note://{id}/", `note://7/ id=7`, `note://7 note://7//`},
		{"note://{id}/x", ``, `note://7/xx note://7/`},
		{"db://{table}/{row}", `db://t/r row=r,table=t`, `db:///r db://t/ db://t/r/s db://../r db://t/..`},
		{"db://{a}-{b}", `db://1-2-3 a=1,b=2-3  db://1--2 a=1,b=-2`, `db://12 db://-2 db://1- db://-2-3`},
		{"db://{a}.txt", `db://1.txt.txt a=1.txt`, `db://.txt`},

		{"file:///{+path}", `file:///a/b.txt path=a/b.txt  file:///a?b#c path=a?b#c`, `file:/// file://a file:///./a file:///a/.?b file:///C:.. file:///C%3a..`},
		{"file:///{+path}/x", `file:///x/x/x path=x/x`, `file:///x`},
		{"file:///{+dir}/{name}.txt", `file:///a/b/c.txt dir=a/b,name=c  file:///a/b.txt/c.txt dir=a/b.txt,name=c`,
			`file:///a/.txt file:///c.txt file:///a/b/c.md file:///a/b.txt/c`},
		{"file:///{+a}/x/{+b}", `file:///1/x/2/x/3 a=1/x/2,b=3`, ``},
		{"file:///{+a}/x/{b}", `file:///1/x/2/x/3 a=1/x/2,b=3`, ``},
		{"file:///{+a}/{b}/meta", ``, `file:///1/2/meta`}, // {+a} takes 1/2
		{"x:{+a}/{b}-{+c}!{d}", `x:1/2/3-4!5-6!7 a=1/2,b=3,c=4!5-6,d=7`, `x:1/2-3!4/5 x:1-2!3`},

		{"p://{x}", `p://%41%62%C3%a9 x=Abé  p://%25%32%46 x=%2F  p://%3F%23%20 x=?#_`, `p://% p://%4 p://a%4 p://%zz p://%+1 p://%ff p://%c3 p://a%00b`},
		{"p://{x}2{y}", `p://a2%20 x=a,y=_`, `p://%2F p://%202%20`},
		{"p://{x}F", ``, `p://%2F`},

		{"p://{x}", `p://... x=...  p://..a x=..a  p://a..b x=a..b`, `p://a%2Fb p://a%2fb p://a%5Cb p://a\b p://.. p://. p://%2e%2E p://%2e`},
		{"p://{+x}", `p://a/..b/c.. x=a/..b/c..  p://a%2Fb x=a/b  p://a/... x=a/...`,
			`p://.. p://../a p://a/.. p://a/../b p://a/%2e%2e/b p://a%2F..%2Fb p://a\..\b p://a%5c.. p://a%00b p://. p://a/. p://a/./b`},
		{"p://{x}.{y}", `p://a..b x=a,y=.b  p://a.b x=a,y=b`, `p://a.. p://...a p://..b/`},
		{"file:///{+a}/{b}", ``, `file:///../x/y file:///x/..`},
		{"file:///u/.{+path}", "file:///u/.bashrc path=bashrc  file:///u/.config/x path=config/x",
			"file:///u/../root/x file:///u/.%2E/root file:///u/..%2froot file:///u/./x file:///u/.. file:///u/..?q file:///u/.%3fq"},
		{"x://h/.{a}", "x://h/.a a=a  x://h/...a a=..a", "x://h/.. x://h/.%2e x://h/..."},
		{"x://h/%2e{a}/b", "x://h/%2ea/b a=a", "x://h/%2e./b x://h/%2e%2e/b"},
		{"x:{a}/{a}", "x:1/1 a=1  x:%31/1 a=1", "x:1/2 x:1/"}, // as an expansion has it
		{"x:..{+a}", "x:..a a=a", "x:../a x:..%5Ca"},
		{"x://h/{+a}.", "x://h/a. a=a", "x://h/a/. x://h/a/.. x://h/.."},
	} {
		s := &Server{}
		s.AddResource(Resource{URI: test.template, Name: "n"}, texts(""))
		check := func(uri, want string) {
			got := "no"
			if it, vars := s.findItem(resources, uri); it != nil {
				got = ""
				for _, name := range slices.Sorted(maps.Keys(vars)) {
					got += "," + name + "=" + strings.ReplaceAll(vars[name], " ", "_")
				}
				got = got[1:]
			}
			if got != want {
				t.Errorf("%s in %s: got %s, want %s", uri, test.template, got, want)
			}
		}
		for pair := range slices.Chunk(strings.Fields(test.matches), 2) {
			check(pair[0], pair[1])
		}
		for _, uri := range strings.Fields(test.refused) {
			check(uri, "no")
		}
	}
}

// A resource with the exact URI is preferred to all templates. Of several templates, the one
// that was added first is used.
func TestOrderOfTemplates(t *testing.T) {
	s := &Server{}
	for _, uri := range []string{"x://{+all}", "x://{a}/one", "x://1/one", "x://1/{b}", "y://{a}", "y://{+all}"} {
		s.AddResource(Resource{URI: uri, Name: "n"}, texts(uri))
	}
	inBubble(t, s, "2025-11-25", func(c *client) {
		check := func(uri, by string) {
			t.Helper()
			c.play(`
				> 1 resources/read {"uri":"` + uri + `"}
				< 1 {"contents":[{"uri":"` + uri + `","text":"` + by + `"}]}`)
		}
		check("x://1/one", "x://1/one")
		check("x://2/one", "x://{+all}")
		check("y://2", "y://{a}")
		check("y://2/3", "y://{+all}")
		s.RemoveResources("x://{+all}")
		c.play("< notifications/resources/list_changed")
		check("x://2/one", "x://{a}/one")
		check("x://1/two", "x://1/{b}")
		s.AddResource(Resource{URI: "x://{a}/one", Name: "again"}, texts("replaced"))
		c.play("< notifications/resources/list_changed")
		check("x://2/one", "replaced")
	})
}

// Matching takes linear time for URIs that would take a backtracking matcher years. A URI that
// is too long is not compared with templates.
func TestTemplatesMatchInLinearTime(t *testing.T) {
	for template, uri := range map[string]string{
		"x:{+a}/{+b}/{+c}/{+d}/{+e}/{+f}/{+g}!":   "x:" + strings.Repeat("a/", 2000),
		"x:{a}-{b}-{c}-{d}-{e}-{f}-{g}-{h}-{i}/j": "x:" + strings.Repeat("-", 4000),
		"x:{+a}": "x:" + strings.Repeat("../", 20_000),
	} {
		s := &Server{}
		s.AddResource(Resource{URI: template, Name: "n"}, texts(""))
		start := time.Now()
		if it, vars := s.findItem(resources, uri); it != nil {
			t.Errorf("%s: a match: %.100v", template, vars)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s took %v", template, took)
		}
	}
	s := &Server{}
	s.AddResource(Resource{URI: "x:{+a}", Name: "n"}, texts(""))
	longest := "x:" + strings.Repeat("a", maxMatched-2)
	it, _ := s.findItem(resources, longest)
	longer, _ := s.findItem(resources, longest+"a")
	s.AddResource(Resource{URI: longest + "a", Name: "n"}, texts(""))
	if exact, _ := s.findItem(resources, longest+"a"); it == nil || longer != nil || exact == nil {
		t.Errorf("the longest URI: %t, a longer one: %t, if it was added: %t", it != nil, longer != nil, exact != nil)
	}
}

// ---- prompts and completion ----

// The arguments of a prompt are checked, and its messages are sent.
func TestGetPrompt(t *testing.T) {
	s := &Server{}
	s.AddPrompt(Prompt{
		Name: "greet", Description: "Greets",
		Arguments: []PromptArgument{{Name: "name", Required: true}, {Name: "how"}},
	}, func(_ context.Context, args map[string]string) ([]PromptMessage, error) {
		return []PromptMessage{{Content: Text(fmt.Sprint(args))}, {"assistant", Text("hm")}}, nil
	})
	fails := func(name string, err error) {
		s.AddPrompt(Prompt{Name: name}, func(context.Context, map[string]string) ([]PromptMessage, error) { return nil, err })
	}
	fails("empty", nil)
	fails("burns", errors.New("disk on fire"))
	fails("refuses", errors.Join(errors.New("x"), &Error{Code: -32602, Message: "not so"}))
	s.AddPrompt(Prompt{Name: "panics"}, func(context.Context, map[string]string) ([]PromptMessage, error) { panic("secret") })
	s.AddPrompt(Prompt{Name: "lacks"}, promptOf(Content{Type: "image/png"}))
	s.AddPrompt(Prompt{Name: "system"}, func(context.Context, map[string]string) ([]PromptMessage, error) {
		return []PromptMessage{{Content: Text("a")}, {"system", Text("b")}}, nil
	})
	greeted := func(args string) string {
		return ` {"description":"Greets","messages":[{"role":"user","content":{"type":"text","text":"` + args + `"}},{"role":"assistant","content":{"type":"text","text":"hm"}}]}`
	}
	const missing, internal = `! -32602 Invalid arguments: name is required`, `! -32603 Internal error`
	const invalid, args = `! -32602 Invalid params: `, `! -32602 Invalid arguments: `
	for params, want := range map[string]string{
		`{"name":"greet","arguments":{"name":"Ann"}}`:         greeted("map[name:Ann]"),
		`{"name":"greet","arguments":{"name":"","how":"so"}}`: greeted("map[how:so name:]"),
		`{"name":"greet","arguments":{"name":"","how":null}}`: greeted("map[name:]"),
		`{"name":"greet","arguments":{"\u006eame":"\u0041"}}`: greeted("map[name:A]"),
		`{"name":"greet"}`:                                      missing,
		`{"name":"greet","arguments":{}}`:                       missing,
		`{"name":"greet","arguments":{"Name":"Ann"}}`:           args + `Name is unknown (there is name, how); name is required`,
		`{"name":"greet","arguments":{"name":"Ann","who":"x"}}`: args + `who is unknown (there is name, how)`,
		`{"name":"greet","arguments":{"name":null}}`:            args + `name must be a string, got null`,
		`{"name":"greet","arguments":["Ann"]}`:                  args + `must be an object, got ["Ann"]`,
		`{"name":"greet","arguments":[]}`:                       missing,
		`{"name":"greet","arguments":"{\"name\":5}"}`:           greeted("map[name:5]"),
		`{"name":"greet","arguments":{"name":5.5}}`:             args + `name must be a string, got 5.5`,
		`{"name":"greet","arguments":{"name":"A","name":"B"}}`:  args + `name came twice`,
		`{"name":"nope"}`:                                       `! -32602 Unknown prompt: nope (there is greet, empty, burns, refuses, panics, lacks, system)`,
		`{"name":7}`:                                            invalid + `name is required`,
		`{"name":"empty"}`:                                      ` {"messages":[]}`,
		`{"name":"burns"}`:                                      `! -32603 disk on fire`,
		`{"name":"refuses"}`:                                    `! -32602 not so`,
		`{"name":"panics"}`:                                     internal,
		`{"name":"system"}`:                                     `! -32603 The result cannot be sent: a role, or an audience, must be user or assistant, got "system"`,
		`{"name":"lacks"}`:                                      `! -32603 The result cannot be sent: content of type "image/png" is unknown, or lacks its data, MIME type, link or resource`,
	} {
		inBothEras(t, s, "prompts/get "+params, want)
	}
}

// inBothEras sends a request in each era and checks the response, which begins with "!" for
// an error.
func inBothEras(t *testing.T, s *Server, request, want string) {
	t.Helper()
	for _, era := range eras {
		plus := era.plus
		if want[0] == '!' {
			plus = ""
		}
		inBubble(t, s, era.version, func(c *client) {
			c.play("> 1"+era.plus+" "+request, "< 1"+plus+want)
		})
	}
}

// The values for an argument come from its own function, which receives the other arguments.
// At most a hundred values are sent.
func TestCompletion(t *testing.T) {
	var many []string
	for i := range 150 {
		many = append(many, strconv.Itoa(i))
	}
	s := &Server{}
	fails := func(err error) CompleteFunc {
		return func(context.Context, string, map[string]string) ([]string, error) { return nil, err }
	}
	s.AddPrompt(Prompt{Name: "p", Arguments: []PromptArgument{
		{Name: "echo", Complete: func(_ context.Context, typed string, known map[string]string) ([]string, error) {
			return []string{typed, fmt.Sprint(known)}, nil
		}},
		{Name: "many", Complete: words(many...)},
		{Name: "full", Complete: words(many[:100]...)},
		{Name: "none", Complete: words()},
		{Name: "plain"},
		{Name: "burns", Complete: fails(errors.New("disk on fire"))},
		{Name: "refuses", Complete: fails(&Error{Code: 3, Message: "no"})},
		{Name: "panics", Complete: func(context.Context, string, map[string]string) ([]string, error) { panic("secret") }},
	}}, promptOf())
	s.AddResource(Resource{URI: "db://{table}/{+row}", Name: "row", Complete: map[string]CompleteFunc{"row": words("r1", "r2")}}, texts(""))
	s.AddResource(Resource{URI: "db://fixed", Name: "fixed"}, texts(""))

	list := func(values []string, total int, more bool) string {
		quoted, _ := json.Marshal(values)
		return fmt.Sprintf(` {"completion":{"values":%s,"total":%d,"hasMore":%t}}`, quoted, total, more)
	}
	prompt := func(arg string) string {
		return `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"` + arg + `","value":"v"}}`
	}
	with := func(argument, context string) string {
		return `{"ref":{"type":"ref/prompt","name":"p","title":"x"},"argument":` + argument + `,"context":` + context + `}`
	}
	ref := func(ref string) string { return `{"ref":` + ref + `,"argument":{"name":"row","value":""}}` }
	const (
		invalid  = "! -32602 Invalid params: "
		unknown  = invalid + "no such prompt or template to complete"
		required = invalid + "argument.name and argument.value are required"
		refType  = invalid + "ref.type must be ref/prompt or ref/resource"
		echo     = `{"name":"echo","value":""}`
		row      = `{"ref":{"type":"ref/resource","uri":"db://{table}/{+row}"},"argument":`
	)
	for params, want := range map[string]string{
		prompt("echo"): list([]string{"v", "map[]"}, 2, false),
		with(echo, `{"arguments":{"many":"7","other":"x"}}`): list([]string{"", "map[many:7 other:x]"}, 2, false),
		with(echo, `{}`):                                            list([]string{"", "map[]"}, 2, false),
		with(echo, `{"arguments":null}`):                            list([]string{"", "map[]"}, 2, false),
		with(echo, `null`):                                          list([]string{"", "map[]"}, 2, false),
		with(echo, `{"Arguments":{"many":"7"}}`):                    list([]string{"", "map[]"}, 2, false),
		with(echo, `{"arguments":{"many":"7","Many":"8"}}`):         list([]string{"", "map[Many:8 many:7]"}, 2, false),
		with(echo, `{"arguments":[7]}`):                             invalid + "context.arguments must be an object whose members are strings",
		with(echo, `{"arguments":{"many":7}}`):                      invalid + "context.arguments must be an object whose members are strings",
		with(echo, `5`):                                             invalid + "context must be an object",
		with(echo, `[{"arguments":{}}]`):                            invalid + "context must be an object",
		with(`{"name":"echo"}`, `{}`):                               required,
		with(`{"name":"echo","value":1}`, `{}`):                     required,
		`{"ref":{"type":"ref/prompt","name":"p"}}`:                  required,
		`{"argument":` + echo + `}`:                                 refType,
		ref(`{"type":"ref/tool","name":"p"}`):                       refType,
		ref(`"p"`):                                                  refType,
		ref(`{"type":"ref/prompt","name":"nope"}`):                  unknown,
		ref(`{"type":"ref/resource","uri":"db://{table}/{+row}"}`):  list([]string{"r1", "r2"}, 2, false),
		ref(`{"type":"ref/resource","uri":"db://users/some/row"}`):  list([]string{"r1", "r2"}, 2, false),
		ref(`{"type":"ref/resource","uri":"db://fixed"}`):           unknown,
		ref(`{"type":"ref/resource","uri":"nope://x"}`):             unknown,
		ref(`{"type":"ref/resource","name":"db://{table}/{+row}"}`): unknown,
		row + `{"name":"table","value":""}}`:                        list([]string{}, 0, false),
		row + `{"name":"+row","value":""}}`:                         list([]string{}, 0, false),
		prompt("many"):                                              list(many[:100], 150, true),
		prompt("full"):                                              list(many[:100], 100, false),
		prompt("none"):                                              list([]string{}, 0, false),
		prompt("plain"):                                             list([]string{}, 0, false),
		prompt("burns"):                                             "! -32603 disk on fire",
		prompt("refuses"):                                           "! 3 no",
		prompt("panics"):                                            "! -32603 Internal error",
		prompt("nope"):                                              list([]string{}, 0, false),
	} {
		inBothEras(t, s, "completion/complete "+params, want)
	}
	inBubble(t, s, "", func(c *client) {
		if got := c.ask(`1 initialize 2024-11-05`); !strings.Contains(got[0], `"completions":{}`) {
			t.Errorf("got %s", got)
		}
	})
	// If nothing can be completed, there is neither.
	bare := &Server{}
	bare.AddPrompt(Prompt{Name: "p", Arguments: []PromptArgument{{Name: "a"}}}, promptOf())
	bare.AddResource(Resource{URI: "db://{table}", Name: "t"}, texts(""))
	inBothEras(t, bare, "completion/complete "+prompt("a"), "! -32601 Method not found: completion/complete")
	inBubble(t, bare, "", func(c *client) {
		c.play(`
			> 1+ server/discover
			< 1* {"supportedVersions":["2026-07-28"],"capabilities":{"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}}`)
	})
}

// ---- what a handler knows of its request ----

// RequestFrom returns the method, name, id, revision, client, capabilities, arguments and
// _meta of the request to every kind of handler.
func TestRequestFrom(t *testing.T) {
	if r := RequestFrom(context.Background()); !reflect.DeepEqual(r, Request{}) {
		t.Errorf("outside of a handler: %+v", r)
	}
	s := &Server{}
	var got []Request
	saw := func(ctx context.Context) { got = append(got, RequestFrom(context.WithoutCancel(ctx))) }
	AddTool(s, Tool{Name: "do"}, func(ctx context.Context, _ map[string]int) (none, error) {
		saw(ctx)
		return none{}, nil
	})
	complete := func(ctx context.Context, _ string, _ map[string]string) ([]string, error) {
		saw(ctx)
		return nil, nil
	}
	s.AddPrompt(Prompt{Name: "p", Arguments: []PromptArgument{{Name: "a", Complete: complete}}}, func(ctx context.Context, _ map[string]string) ([]PromptMessage, error) {
		saw(ctx)
		return nil, nil
	})
	read := func(ctx context.Context, _ string, _ map[string]string) ([]ResourceContents, error) {
		saw(ctx)
		return nil, nil
	}
	s.AddResource(Resource{URI: "x:a", Name: "a"}, read)
	s.AddResource(Resource{URI: "x:{v}", Name: "b"}, read)
	s.AddMethod("x/y", func(ctx context.Context, _ json.RawMessage) (any, error) {
		saw(ctx)
		return nil, nil
	})
	const trace = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
	const modern = `"` + keyVersion + `":"2026-07-28","` + keyCaps + `":`
	raw := func(text string) json.RawMessage {
		if text == "" {
			return nil
		}
		return json.RawMessage(text)
	}
	var want []Request
	inBubble(t, s, "", func(c *client) {
		all := func(id, meta string, expected Request) {
			for _, m := range []struct{ method, name, params, arguments string }{
				{"tools/call", "do", `"name":"do"`, ""},
				{"tools/call", "do", `"name":"do","arguments":{"n": 1, "m":2.0}`, `{"n": 1, "m":2.0}`},
				{"prompts/get", "p", `"name":"p","arguments":{"a": "\u0041"}`, `{"a": "\u0041"}`},
				{"resources/read", "x:a", `"uri":"x:a"`, ""},
				{"resources/read", "x:b", `"uri":"x:b"`, ""},
				{"completion/complete", "p", `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`, ""},
				{"x/y", "", `"":"none","name":"none","uri":"none"`, ""}, // a method of its own names no item
			} {
				if meta != "" {
					m.params += `,"_meta":` + meta
				}
				c.send(id + " " + m.method + " {" + m.params + "}")
				synctest.Wait()
				expected.Method, expected.Name, expected.ID, expected.Arguments, expected.Meta = m.method, m.name, raw(id), raw(m.arguments), raw(meta)
				want = append(want, expected)
			}
		}
		for _, id := range []string{`1`, `-7`, `9007199254740993`, `2.0`, `""`, `"\u0061\"é"`} {
			all(id, `{`+modern+`{"roots":{}},`+trace+`}`, Request{ProtocolVersion: "2026-07-28", Capabilities: raw(`{"roots":{}}`)})
		}
		all("1", `{"`+keyClient+`":{"name":"mod\u0065rn","version":"2","title":"T"},`+modern+`{}}`,
			Request{ProtocolVersion: "2026-07-28", ClientName: "modern", ClientVersion: "2", Capabilities: raw(`{}`)})
		c.recv()
		c.initialize("2025-06-18", `{"sampling":{}}`)
		for _, meta := range []string{"", `{` + trace + `,"progressToken":1}`} {
			all("1", meta, Request{ProtocolVersion: "2025-06-18", ClientName: "c", ClientVersion: "1", Capabilities: raw(`{"sampling":{}}`)})
		}
		c.send(`2 ping {"filler":"` + strings.Repeat("x", 64<<10) + `"}`) // so that buffers are used again
		c.recv()
	})
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("request %d:\ngot  %+q\nwant %+q", i, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
		}
	}
}

// Appending to the bytes of a Request does not change the library's own. They are not copied,
// so a call of RequestFrom costs the same for large arguments.
func TestRequestFromDoesNotCopy(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "t", InputSchema: json.RawMessage(openSchema)}, func(ctx context.Context, in json.RawMessage) (string, error) {
		r := RequestFrom(ctx)
		for _, b := range []json.RawMessage{r.ID, r.Meta, r.Capabilities, r.Arguments} {
			_ = append(b, strings.Repeat("x", 200)...)
		}
		if n := allocated(func() { r = RequestFrom(ctx) }); n > 1<<19 {
			t.Errorf("%.0f bytes", n)
		}
		Progress(ctx, 1, 0, "")
		return fmt.Sprintf("%s %s %.10s %v", r.ID, r.Capabilities, r.Arguments, json.Valid(r.Meta)), nil
	})
	inBubble(t, s, "", func(c *client) {
		c.send(`1+ call t @7 {"a":"` + strings.Repeat("x", 1<<20) + `"}`)
		time.Sleep(progressGap)
		c.want(progressLine("7", "1"), `1+ said 1 {} {"a":"xxxx true`)
	})
}

// ---- logging and progress ----

// doAt is a call of the tool with a level, which is raw JSON; logged is what it logs.
func doAt(level string) string {
	return `1+ tools/call {"name":"do","_meta":{"` + keyLevel + `":` + level + "}}"
}

func logged(params string) string { return "notifications/message {" + params + "}" }

const done = `1+ {"content":[]}`

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

// LogHandler fulfills the contract of slog.Handler, except that messages of the protocol have
// no time.
func TestLogHandlerWithSlogtest(t *testing.T) {
	s := &Server{}
	logger, do := s.LogHandler("x"), doer(s)
	inBubble(t, s, "", func(c *client) {
		begun, release := make(chan context.Context), make(chan struct{})
		*do = func(ctx context.Context) { begun <- ctx; <-release }
		c.send(doAt(`"debug"`))
		err := slogtest.TestHandler(inRequest{logger, <-begun}, func() (messages []map[string]any) {
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
				data, isObject := m.Params.Data.(map[string]any)
				if !isObject { // a message without attributes
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
		c.want(done)
	})
}

// Levels of slog become levels of the protocol, and only what the client requested is sent.
func TestLogLevels(t *testing.T) {
	s := &Server{}
	l, do := slog.New(s.LogHandler("")), doer(s)
	of := map[slog.Level]string{-8: "debug", -1: "debug", 0: "info", 2: "notice", 3: "notice", 4: "warning", 8: "error", 11: "error", 12: "critical", 16: "alert", 20: "emergency", 99: "emergency"}
	ordered := slices.Sorted(maps.Keys(of))
	enabled := 0
	*do = func(ctx context.Context) {
		enabled = 0
		for _, level := range ordered {
			if l.Enabled(ctx, level) {
				enabled++
			}
			l.Log(ctx, level, "m")
		}
	}
	from := func(name string) (lines []string) {
		for _, level := range ordered {
			if slices.Index(logLevels[:], of[level]) >= slices.Index(logLevels[:], name) {
				lines = append(lines, logged(`"level":"`+of[level]+`","data":"m"`))
			}
		}
		return lines
	}
	checkEnabled := func(want int) {
		if enabled != want {
			t.Errorf("%d levels are enabled, want %d", enabled, want)
		}
	}
	inBubble(t, s, "", func(c *client) {
		for _, level := range logLevels {
			c.send(doAt(`"` + level + `"`))
			c.want(append(from(level), done)...)
			checkEnabled(len(from(level)))
		}
		for _, bad := range []string{`"loud"`, `"INFO"`, `""`, `3`, `["info"]`, `"` + strings.Repeat("x", 1<<16) + `"`} {
			if got := c.ask(doAt(bad)); len(got) != 1 || len(got[0]) > 500 || !strings.Contains(got[0], `"code":-32602,"message":"Invalid log level: `) {
				t.Errorf("level %s: got %s", bad, got)
			}
		}
		c.play("> 1+ call do", "< "+done) // requests no level
		checkEnabled(0)
	})
	inBubble(t, s, "2025-11-25", func(c *client) {
		const silent = "> 1 call do\n< 1 {\"content\":[]}"
		c.play(silent)
		for _, level := range []string{"emergency", "warning", "debug"} {
			c.play(`> 2 logging/setLevel {"level":"`+level+`"}`, "< 2 {}")
			c.send("1 call do")
			c.want(append(from(level), `1 {"content":[]}`)...)
			checkEnabled(len(from(level)))
		}
		c.play(`
			> 3 logging/setLevel {"level":"error"}
			< 3 {}
			> 4+ logging/setLevel {"level":"debug"}
			< 4! -32601 Method not found: logging/setLevel`)
		for _, bad := range []string{`{}`, `{"level":null}`, `{"level":["debug"]}`, `{"level":"Debug"}`} {
			if got := c.ask("3 logging/setLevel " + bad); len(got) != 1 || !strings.Contains(got[0], `"code":-32602`) {
				t.Errorf("%s: got %s", bad, got)
			}
		}
		// None of these has changed it. A modern request has its own level.
		*do = func(ctx context.Context) { slog.New(s.LogHandler("l")).WarnContext(ctx, "w") }
		c.play(silent)
		c.play("> "+doAt(`"info"`), "< "+logged(`"level":"warning","logger":"l","data":"w"`), "< "+done)
	})
}

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

type panicky struct{}

func (panicky) MarshalJSON() ([]byte, error) { panic("oh") }

// The data of a message is an object. A value that cannot be written or panics is replaced by
// an error. slogtest checks groups and attributes.
func TestLogData(t *testing.T) {
	s := &Server{}
	logger, do := s.LogHandler("lo\"g"), doer(s)
	late, wantLate := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), `{"msg":"m","t":"!ERROR:time.Time year outside of range [0,9999]"}`
	var line bytes.Buffer
	if slog.New(slog.NewJSONHandler(&line, nil)).Info("m", "t", late); !json.Valid(line.Bytes()) { // before Go 1.27
		wantLate = `"m"`
	}
	for _, test := range []struct {
		msg   string
		attrs []any
		want  string
	}{
		{"a <b>, \n\u2028", nil, `"a <b>, \n\u2028"`},
		{"", nil, `""`},
		{"m", []any{slog.Attr{}}, `"m"`},
		{"m", []any{"i", int64(math.MinInt64), "u", uint64(math.MaxUint64), "f", 1.5, "b", true, "s", "x", "n", nil,
			"t", time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), "d", 1500 * time.Millisecond},
			`{"msg":"m","i":-9223372036854775808,"u":18446744073709551615,"f":1.5,"b":true,"s":"x","n":null,"t":"2026-01-02T03:04:05.000000006Z","d":1500000000}`},
		{"m", []any{"struct", point{X: 1}, "list", []int{1, 2}, "map", map[string]int{"k": 1}, "raw", json.RawMessage(`{"x": 1}`), "bytes", []byte("hi")},
			`{"msg":"m","struct":{"x":1},"list":[1,2],"map":{"k":1},"raw":{"x":1},"bytes":"aGk="}`},
		{"m", []any{"err", fmt.Errorf("outer: %w", fs.ErrNotExist), "g", slog.GroupValue(slog.Any("err", errors.New("inner")))},
			`{"msg":"m","err":"outer: file does not exist","g":{"err":"inner"}}`},
		{"m", []any{"nan", math.NaN(), "complex", 1i, "fine", 1, "list", []any{math.Inf(-1)}},
			`{"msg":"m","nan":"!ERROR:json: unsupported value: NaN","complex":"!ERROR:json: unsupported type: complex128","fine":1,"list":"!ERROR:json: unsupported value: -Inf"}`},
		{"m", []any{"fine", 1, "err", (*nilError)(nil), "json", panicky{}}, `{"msg":"m","fine":1,"err":"<nil>","json":"!PANIC: oh"}`},
		{"m", []any{"t", late}, wantLate},
		{"m", []any{"level", slog.LevelWarn, "time", "now", "source", "s"}, `{"msg":"m","level":"WARN","time":"now","source":"s"}`},
	} {
		inBubble(t, s, "", func(c *client) {
			*do = func(ctx context.Context) { slog.New(logger).InfoContext(ctx, test.msg, test.attrs...) }
			c.play("> "+doAt(`"info"`), "< "+logged(`"level":"info","logger":"lo\"g","data":`+test.want), "< "+done)
		})
	}
}

// Logging outside of a request, after its end, or in a session that began before the first
// LogHandler does nothing, and Enabled reports so.
func TestLogWithoutClient(t *testing.T) {
	on := &Server{}
	l := slog.New(on.LogHandler("x"))
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
		const refused = `
			> 2 logging/setLevel {"level":"debug"}
			< 2! -32601 Method not found: logging/setLevel
			> 1 call do
			< 1 {"content":[]}`
		c.play(refused)
		l = slog.New(off.LogHandler("late"))
		c.play(refused)
		c.play(`
			> 4+ server/discover
			< 4* {"supportedVersions":["2026-07-28"],"capabilities":{"logging":{},"tools":{"listChanged":true}}}`)
		*do = func(ctx context.Context) { l.InfoContext(ctx, "declared by now") }
		c.play("> "+doAt(`"debug"`), "< "+logged(`"level":"info","logger":"late","data":"declared by now"`), "< "+done)
	})
	do = doer(on)
	inBubble(t, on, "", func(c *client) {
		var late context.Context
		*do = func(ctx context.Context) { late = context.WithoutCancel(ctx) }
		c.play("> "+doAt(`"debug"`), "< "+done)
		l.ErrorContext(late, "after its end")
		*do = func(ctx context.Context) {
			<-ctx.Done()
			l.ErrorContext(context.WithoutCancel(ctx), "cancelled")
		}
		c.send(doAt(`"debug"`), "cancel 1")
		c.want()
		*do = func(ctx context.Context) { l.ErrorContext(late, "of an earlier request with the same id") }
		c.play("> "+doAt(`"debug"`), "< "+done)
	})
}

// Progress is not sent if it does not rise, is not a number, has no token, or is late.
func TestProgress(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		var kept context.Context
		add(&s.Server, "steps", func(ctx context.Context) (string, error) {
			for _, done := range []float64{-1, 0, 0, math.NaN(), math.Inf(1), math.Inf(-1), 1e-7, 0.5, 0.25, 2, 1e6, 1234567.5, 1e21} {
				Progress(ctx, done, math.NaN(), "")
			}
			kept = context.WithoutCancel(ctx)
			return "done", nil
		})
		c := serve(t, &s.Server)
		for _, token := range []string{`7`, `"7"`, `"\u0041 \\"`, `9007199254740993`, `-0`, `7.0`, `""`} {
			c.writes = nil
			c.send(`1+ tools/call {"name":"steps","_meta":{"progressToken":` + token + "}}")
			time.Sleep(progressGap)
			c.recv()
			want := []string{}
			for _, done := range []string{"-1", "0", "0.0000001", "0.5", "2", "1000000", "1234567.5", "1000000000000000000000"} {
				want = append(want, written(progressLine(token, done))) // each in its own write, with the token as it was sent
			}
			if want = append(want, written("1+ said done")); !slices.Equal(c.writes, want) {
				t.Errorf("writes: %q\nwant %q", c.writes, want)
			}
		}
		Progress(kept, 1e22, 0, "too late")
		c.play("> 1+ call steps", "< 1+ said done") // no token, no line
		Progress(kept, 1e22, 0, "too late")
		Progress(context.Background(), 1, 0, "not of a handler")
		for _, token := range []string{`1.5`, `true`, `[]`} {
			c.send("1+ call steps @" + token)
			if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], "-32602") {
				t.Errorf("token %s: %q", token, got)
			}
		}
	})
}

// Goroutines of a handler may report progress concurrently, also after the handler has
// returned. What is sent rises, and precedes the response.
func TestConcurrentProgress(t *testing.T) {
	s := &Server{}
	add(s, "crowd", func(ctx context.Context) (string, error) {
		var waited sync.WaitGroup
		for i := range 40 {
			report := func() {
				for n := range 20 {
					Progress(ctx, float64(20*n+i+1), 0, "")
				}
			}
			if i%2 == 0 {
				waited.Go(report)
			} else {
				go report()
			}
		}
		waited.Wait()
		return "done", nil
	})
	inBubble(t, s, "", func(c *client) {
		for range 5 {
			c.send("1+ call crowd @1")
			time.Sleep(progressGap)
			lines := c.recv()
			if last := lines[len(lines)-1]; !sameJSON(t, last, "1+ said done") {
				t.Errorf("the last line is %s", last)
			}
			last := 0.0
			for _, line := range lines[:len(lines)-1] {
				var m struct{ Params struct{ Progress float64 } }
				if json.Unmarshal([]byte(line), &m); m.Params.Progress <= last {
					t.Errorf("%s after %v", line, last)
				}
				last = m.Params.Progress
			}
		}
	})
}

// ---- asking ----

const everyCap = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`

// An askFunc is a handler that asks; see asker.
type askFunc func(context.Context) (string, error)

// asker returns a server whose tools "ask" and "other", prompts of these names, resources
// ask:a and ask:o, and completions of the prompts all call ask.
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
		s.AddPrompt(Prompt{Name: name, Arguments: []PromptArgument{{Name: "a", Complete: complete}}}, func(ctx context.Context, _ map[string]string) ([]PromptMessage, error) {
			text, err := ask(ctx)
			return []PromptMessage{{Content: Text(text)}}, err
		})
		s.AddResource(Resource{URI: "ask:" + name[:1], Name: name}, func(ctx context.Context, _ string, _ map[string]string) ([]ResourceContents, error) {
			text, err := ask(ctx)
			return []ResourceContents{{Text: text}}, err
		})
	}
	return s
}

// outcome returns, as a text, the results of a function that asks the client. It returns an
// error that a handler must return.
func outcome(v any, err error) (string, error) {
	var cancelled *CancelledError
	switch {
	case errors.As(err, new(*Error)), errors.Is(err, ErrInputRequired), errors.Is(err, errors.ErrUnsupported):
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
	}
	return fmt.Sprintf("%+v", v), nil
}

// confirm asks a question about what; confirmParams has the question as it is sent.
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

func askOnce(ctx context.Context) (string, error) { return outcome(confirm(ctx, "k")) }

func withdrawn(id any) string {
	return fmt.Sprintf(`notifications/cancelled {"requestId":%v,"reason":"no longer needed"}`, id)
}

const badState = "Invalid requestState"

func elicits[T any]() { Elicit[T](context.Background(), "m") }

// Elicit panics for a type that no form can show, and the message names the field.
func TestInvalidFormsPanic(t *testing.T) {
	wantPanics(t, []mistake{
		{"F: ", elicits[struct{ F point }]}, {"F: ", elicits[struct{ F []byte }]}, {"F: ", elicits[struct{ F map[string]string }]},
		{"F: ", elicits[struct{ F []string }]}, {"F: ", elicits[struct{ F []int }]}, {"F: interface {} cannot", elicits[struct{ F any }]},
		{", or use ElicitSchema", elicits[struct{ F any }]},
		{"F: format must be", elicits[struct {
			F string `format:"phone"`
		}]},
		{"struct", elicits[string]}, {"struct", elicits[[]string]}, {"struct", elicits[map[string]string]}, {"struct", elicits[time.Time]},
	})
	elicits[struct{ Fine string }]()
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
	form, err := Elicit[trip](ctx, "Where \"to\"?\n")
	if err != nil && !reflect.ValueOf(form).IsZero() {
		return fmt.Sprintf("an error with %+v", form), nil
	}
	return outcome(form, err)
}

func askByHand(ctx context.Context) (string, error) {
	return outcome(ElicitSchema(ctx, "?", json.RawMessage("{ \"type\":\"object\",\n\"properties\" : {} }")))
}

func askURL(ctx context.Context) (string, error) {
	return outcome("agreed", ElicitURL(ctx, "Log in", "https://x/?a=1&b=2"))
}

func askRoots(ctx context.Context) (string, error) { return outcome(listRoots(ctx)) }

func asking(method string, params any) askFunc {
	return func(ctx context.Context) (string, error) { return outcome(Ask(ctx, method, params)) }
}

func askModel(params string) askFunc {
	return asking("sampling/createMessage", json.RawMessage(params))
}

const (
	byHandAsk = `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}`
	urlAsk    = `{"mode":"url","message":"Log in","url":"https://x/?a=1&b=2"}`
	hiAsk     = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9}`
	hiAnswer  = `{"role":"assistant","content":{"type":"text","text":"yo"},"model":"m","stopReason":"endTurn","_meta":{"x":1},"more":[]}`
)

const consentAsk = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":` +
	`{"confirm":{"type":"boolean","description":"tick to go ahead","default":false}}}}`

// askConsent returns what the model reads if it is not nil.
func askConsent(ctx context.Context) (string, error) {
	err := Confirm(ctx, "m")
	if errors.Is(err, ErrDeclined) || errors.Is(err, ErrDismissed) {
		return "model: " + err.Error(), nil
	}
	return outcome("agreed", err)
}

// The same handler works in both eras: what is asked, what is answered, and the result.
func TestAskingInBothEras(t *testing.T) {
	const create, sample = "elicitation/create", "sampling/createMessage"
	about := func(what string) asked { return asked{what, create, confirmParams(what), confirmYes} }
	check := func(name string, ask askFunc, rounds [][]asked, want string) {
		t.Run(name, func(t *testing.T) {
			inBothErasAsk(t, ask, rounds, want)
		})
	}

	invalid := "error: mcp: " + create + ": the client's answer is invalid: "
	unfit := "error: mcp: the user's answer: "
	for _, test := range []struct{ name, answer, want string }{
		{"accept", `{"action":"accept","content":{"city":"Rome","days":2,"class":"b","extra":["y","x"]}}`, "{City:Rome Days:2 Class:b Extra:[y x]}"},
		{"unknown member", `{"action":"accept","content":{"city":"Rome","at":"noon"}}`, "{City:Rome Days:0 Class:a Extra:[]}"}, // as the form allows
		{"number as text", `{"action":"accept","content":{"city":"Rome","days":"2"}}`, "{City:Rome Days:2 Class:a Extra:[]}"},
		{"decline", `{"action":"decline","content":{}}`, "declined"},
		{"cancel", `{"action":"cancel"}`, "dismissed"},
		{"out of bounds", `{"action":"accept","content":{"city":"R","days":0,"extra":["z"]}}`,
			unfit + `city must have a length of at least 2, got 1; days must be at least 1, got 0; extra[0] must be one of "x", "y", got "z"`},
		{"wrong type", `{"action":"accept","content":{"city":5}}`, unfit + "city must be a string, got 5"},
		{"no content", `{"action":"accept"}`, unfit + "city is required"},
		{"content is not an object", `{"action":"accept","content":"Rome"}`, invalid + `content must be an object, got "Rome"`},
		{"unknown action", `{"action":"Accept"}`, invalid + `action must be accept, decline or cancel, got "Accept"`},
		{"action is not a string", `{"action":5}`, invalid + "action must be accept, decline or cancel, got 5"},
		{"no action", `{"Action":"accept","content":{"city":"Rome"}}`, invalid + "action must be accept, decline or cancel, got none"},
		{"content in another case", `{"action":"accept","Content":{"city":"Rome"}}`, unfit + "city is required"},
	} {
		check("form: "+test.name, askTrip, [][]asked{{{"k", create, tripAsk, test.answer}}}, test.want)
	}

	for _, test := range []struct {
		ask                          askFunc
		method, params, answer, want string
	}{
		{askByHand, create, byHandAsk, `{"action":"accept","content":{"x":[1]}}`, `{"x":[1]}`},
		{askByHand, create, byHandAsk, `{"action":"decline"}`, "declined"},
		{askByHand, create, byHandAsk, `{"action":"accept","content":null}`, "{}"},
		{askConsent, create, consentAsk, `{"action":"accept","content":null}`, "model: the user declined"}, // an answer without fields is not consent
		{askConsent, create, consentAsk, `{"action":"accept","content":{"confirm":false}}`, "model: the user declined"},
		{askConsent, create, consentAsk, `{"action":"accept","content":{"confirm":true}}`, "agreed"},
		{askConsent, create, consentAsk, `{"action":"decline","content":{"confirm":true}}`, "model: the user declined"},
		{askConsent, create, consentAsk, `{"action":"cancel"}`, "model: the user dismissed the question"},
		// Names are exact, and one action counts: otherwise a decline would be consent.
		{askConsent, create, consentAsk, `{"action":"decline","Action":"accept","content":{"confirm":true}}`, "model: the user declined"},
		{askConsent, create, consentAsk, `{"action":"accept","action":"decline","content":{"confirm":true}}`, "error: mcp: elicitation/create: the client's answer is invalid: action or content came twice"},
		{askConsent, create, consentAsk, `{"action":"decline","action":"accept","content":{"confirm":true}}`, "error: mcp: elicitation/create: the client's answer is invalid: action or content came twice"},
		{askConsent, create, consentAsk, `{"action":"accept","content":{"confirm":false},"content":{"confirm":true}}`, "error: mcp: elicitation/create: the client's answer is invalid: action or content came twice"},
		{askConsent, create, consentAsk, `{"action":"accept","content":{"confirm":false},"Content":{"confirm":true}}`, "model: the user declined"},
		{askConsent, create, consentAsk, `{"action":"accept","content":{"confirm":false,"Confirm":true}}`, "error: mcp: the user's answer: Confirm is unknown (there is confirm)"},
		{askURL, create, urlAsk, `{"action":"cancel","ACTION":"accept"}`, "dismissed"},
		{askURL, create, urlAsk, `{"action":"accept"}`, "agreed"},
		{askURL, create, urlAsk, `{"action":"decline"}`, "declined"},
		{askRoots, "roots/list", `{}`, `{"roots":[{"uri":"file:///a","name":"A","_meta":{}},{"uri":"file:///b"}],"_meta":{}}`,
			"[{URI:file:///a Name:A} {URI:file:///b Name:}]"},
		{asking("roots/list", nil), "roots/list", `{}`, `{"roots":null, "x":[1.0]}`, `{"roots":null, "x":[1.0]}`}, // unchecked, as it came
		{asking("roots/list", none{}), "roots/list", `{}`, `{}`, `{}`},
		{asking("roots/list", map[string]any(nil)), "roots/list", `{}`, `{}`, `{}`},
		{askModel(hiAsk), sample, hiAsk, hiAnswer, hiAnswer},
		{askModel("{ \"maxTokens\" : 1,\n\"messages\":[],\"tools\":[] }"), sample, `{"maxTokens":1,"messages":[],"tools":[]}`, `{}`, `{}`},
		{asking(sample, struct {
			SystemPrompt string `json:"systemPrompt"`
			MaxTokens    int    `json:"maxTokens"`
			Messages     []any  `json:"messages"`
		}{"<\u2028>", 1, nil}), sample, `{"systemPrompt":"<\u2028>","maxTokens":1,"messages":[]}`, `{}`, `{}`},
	} {
		check(test.method+test.answer, test.ask, [][]asked{{{"k", test.method, test.params, test.answer}}}, test.want)
	}

	for _, url := range append([]string{"", "not a url", "/login"}, slices.Concat(slices.Collect(maps.Values(invalidURIs))...)...) {
		check("URL "+url, func(ctx context.Context) (string, error) {
			got, err := outcome("agreed", ElicitURL(ctx, "Log in", url))
			if !strings.HasPrefix(got, "error: mcp: ElicitURL: "+strconv.Quote(url)+": ") {
				t.Errorf("%q: got %s, %v", url, got, err)
			}
			return "", err
		}, nil, "")
	}
	check("no question", func(context.Context) (string, error) { return "x", nil }, nil, "x")
	check("invalid schema", func(ctx context.Context) (string, error) {
		return outcome(ElicitSchema(ctx, "?", json.RawMessage(`{"type":`)))
	}, nil, "error: mcp: ElicitSchema: not valid JSON: unexpected end of JSON input")
	check("schema that is not an object", func(ctx context.Context) (string, error) {
		return outcome(ElicitSchema(ctx, "?", json.RawMessage(" null")))
	}, nil, "error: mcp: ElicitSchema: the schema must be a JSON object")
	for _, params := range []any{json.RawMessage("{"), json.RawMessage(nil), (*none)(nil), "{}", 5, []int{1}, func() {}, math.NaN()} {
		got, err := Ask(t.Context(), "roots/list", params)
		if err == nil || got != nil || !strings.HasPrefix(err.Error(), "mcp: Ask: ") || errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: got %s, %v", params, got, err)
		}
	}
	check("three rounds", func(ctx context.Context) (string, error) {
		answers := ""
		for _, what := range []string{"a", "b", "c"} {
			ok, err := confirm(ctx, what)
			if err != nil && !errors.Is(err, ErrDeclined) {
				return "", err
			}
			answers += fmt.Sprint(ok, " ")
		}
		return answers, nil
	}, [][]asked{{about("a")}, {{"b", create, confirmParams("b"), `{"action":"decline"}`}}, {about("c")}}, "true false true ")
	text := func(name, message, text string) asked {
		return asked{name, create, `{"mode":"form","message":` + message + `,"requestedSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}`,
			`{"action":"accept","content":{"text":"` + text + `"}}`}
	}
	type oneText struct {
		Text string `json:"text"`
	}
	check("until valid", func(ctx context.Context) (string, error) { // an answer is not used for two questions
		for tries := 1; ; tries++ {
			form, err := Elicit[oneText](ctx, "How many?")
			if n, wrong := strconv.Atoi(form.Text); err != nil || wrong == nil {
				return fmt.Sprint(n, " after ", tries), err
			}
		}
	}, [][]asked{{text("a", `"How many?"`, "x")}, {text("b", `"How many?"`, "y")}, {text("c", `"How many?"`, "7")}}, "7 after 3")
	check("text that is not UTF-8", func(ctx context.Context) (string, error) {
		form, err := Elicit[oneText](ctx, "\xff?")
		return form.Text, err
	}, [][]asked{{text("a", `"\ufffd?"`, "yes")}}, "yes")
	check("several at once", func(ctx context.Context) (string, error) {
		ok, err := confirm(ctx, "a <>")
		roots, err2 := listRoots(ctx)
		said, err3 := Ask(ctx, sample, json.RawMessage(hiAsk))
		if err := errors.Join(err, err2, err3); err != nil {
			return "", fmt.Errorf("not yet: %w", err)
		}
		last, err := confirm(ctx, "last")
		return fmt.Sprintf("%v %v %s %v", ok, len(roots), said, last), err
	}, [][]asked{{about("a <>"), {"b", "roots/list", `{}`, `{"roots":[]}`}, {"", sample, hiAsk, hiAnswer}}, {about("last")}}, "true 0 "+hiAnswer+" true")
}

// inBothErasAsk calls a tool that asks in each era, answers its questions, and checks the
// questions and the result.
func inBothErasAsk(t *testing.T, ask askFunc, rounds [][]asked, want string) {
	mint := regexp.MustCompile(`,"elicitationId":"[0-9a-z]{8,}"`)
	inBubbleWith(t, asker(ask), "2025-11-25", everyCap, func(c *client) {
		c.send("1 call ask")
		for i, q := range slices.Concat(rounds...) {
			got := c.recv()
			if len(got) != 1 {
				c.t.Fatalf("question %d: got %q", i, got)
			}
			url := strings.Contains(q.params, `"mode":"url"`)
			if bare := mint.ReplaceAllString(got[0], ""); (bare != got[0]) != url || !sameJSON(t, bare, fmt.Sprint(i+1, " "+q.method+" "+q.params)) {
				t.Errorf("got  %s\nwant %s", got[0], fmt.Sprint(i+1, " "+q.method+" "+q.params))
			}
			c.send(fmt.Sprint(i+1, " "+q.answer))
		}
		c.want("1 said " + want)
	})
	inBubbleWith(t, asker(ask), "", everyCap, func(c *client) {
		more := ""
		for i, round := range rounds {
			c.send(fmt.Sprint(i, `+ tools/call {"name":"ask","arguments":{}`+more+"}"))
			inputs, answers := "", ""
			for _, q := range round {
				inputs += fmt.Sprintf(`,%q:{"method":%q,"params":%s}`, "$"+q.key, q.method, q.params)
				answers += fmt.Sprintf(`,%q:%s`, "$"+q.key, q.answer)
			}
			c.want(fmt.Sprint(i, "? {"+inputs[1:]+"}"))
			more = `,"inputResponses":{` + answers[1:] + `},"requestState":"$STATE"`
		}
		c.play(`> "last"+ tools/call {"name":"ask","arguments":{}`+more+"}", `< "last"+ said `+want)
	})
}

// A client is asked only for what it has declared, in the form of its revision.
func TestCapabilitiesForQuestions(t *testing.T) {
	const (
		create, sample = "elicitation/create", "sampling/createMessage"
		withTools      = `{"maxTokens":1,"messages":[],"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
	)
	other := asking("com.example/\"ask\"", map[string]int{"a": 1})

	for i, test := range []struct {
		version, caps string
		ask           askFunc
		method        string // "" if it is not asked
		params        string // the beginning of those of the question, or the capabilities that the error requires, or its text
	}{
		{"2024-11-05", `{"elicitation":{}}`, askOnce, "", ""},
		{"2025-03-26", `{"elicitation":{"form":{},"url":{}}}`, askOnce, "", ""},
		{"2025-06-18", `{"elicitation":{}}`, askOnce, create, confirmAsk},
		{"2025-06-18", `{"elicitation":{"form":{},"url":{}}}`, askURL, "", ""},
		{"2025-06-18", `{"elicitation":{}}`, askTrip, "", ""}, // has a choice of several
		{"2025-11-25", `{}`, askOnce, "", ""},
		{"2025-11-25", `{"elicitation":true}`, askOnce, "", ""},
		{"2025-11-25", `{"elicitation":{}}`, askOnce, create, confirmAsk},
		{"2025-11-25", `{"elicitation":{"url":{}}}`, askOnce, "", ""},
		{"2025-11-25", `{"elicitation":{}}`, askURL, "", ""},
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

		{"2024-11-05", `{"roots":{}}`, askModel(hiAsk), "", ""},
		{"2024-11-05", `{"sampling":{}}`, askModel(hiAsk), sample, hiAsk},
		{"2025-11-25", `{"sampling":{}}`, askModel(withTools), "", ""},
		{"2025-11-25", `{"sampling":{"tools":{}}}`, askModel(withTools), sample, withTools},
		{"2026-07-28", `{}`, askModel(hiAsk), "", `{"sampling":{}}`},
		{"2026-07-28", `{"sampling":{}}`, askModel(withTools), "", `{"sampling":{"tools":{}}}`},
		{"2026-07-28", `{"sampling":{"tools":{}}}`, askModel(withTools), sample, withTools},

		{"2025-11-25", `{}`, other, `com.example/\"ask\"`, `{"a":1}`},
		{"2026-07-28", everyCap, other, "", "cannot be asked in revision 2026-07-28"},
		{"2026-07-28", everyCap, asking("ping", nil), "", "cannot be asked in revision 2026-07-28"},
		{"2025-11-25", everyCap, asking("elicitation/create", none{}), "", "use Elicit"},
		{"2026-07-28", everyCap, asking("elicitation/create", none{}), "", "use Elicit"},
	} {
		t.Run(fmt.Sprint(i, test.version, test.caps), func(t *testing.T) {
			var got error
			s := asker(func(ctx context.Context) (string, error) {
				text, err := test.ask(ctx)
				got = err
				return text, err
			})
			inBubbleWith(t, s, strings.TrimPrefix(test.version, "2026-07-28"), test.caps, func(c *client) {
				line := "1 call ask"
				if test.version == "2026-07-28" {
					line = "1+ call ask"
				}
				response := strings.Join(c.ask(line), "\n")
				want := `"isError":true`
				switch {
				case test.method != "":
					want = `"method":"` + test.method + `","params":` + test.params
				case strings.HasPrefix(test.params, "{"):
					want = `"requiredCapabilities":` + test.params
				case test.params != "":
					want = test.params
				}
				if !strings.Contains(response, want) || test.method == "" && !errors.Is(got, errors.ErrUnsupported) {
					t.Errorf("got  %s %v\nwant %s", response, got, want)
				}
				if test.method != "" && test.version != "2026-07-28" {
					c.send("1! -1 no")
					c.want("1 said error: mcp: the client responded with an error: no (-1)")
				}
			})
		})
	}
}

// Handlers of all kinds may ask, except completions in the modern era. If the client cannot
// be asked, the error names the capability.
func TestHandlersOfAllKindsMayAsk(t *testing.T) {
	const lacks = "This request needs the elicitation capability, which this client does not have"
	const unsupported = "! -32603 mcp: completion/complete cannot ask the client: unsupported operation"
	for _, test := range []struct{ request, result, hints string }{
		{`tools/call {"name":"ask"`, `{"content":[{"type":"text","text":"true"}]}`, "+ "},
		{`prompts/get {"name":"ask"`, `{"messages":[{"role":"user","content":{"type":"text","text":"true"}}]}`, "+ "},
		{`resources/read {"uri":"ask:a"`, `{"contents":[{"uri":"ask:a","text":"true"}]}`, "* "},
		{`completion/complete {"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"a","value":""}`,
			`{"completion":{"values":["true"],"total":1,"hasMore":false}}`, ""},
	} {
		t.Run(test.request, func(t *testing.T) {
			inBubbleWith(t, asker(askOnce), "", everyCap, func(c *client) {
				c.initialize("2025-11-25", `{"elicitation":{}}`)
				c.play("> 4 "+test.request+"}", "< 1 elicitation/create "+confirmAsk)
				c.play("> 1 "+confirmYes, "< 4 "+test.result)
				if test.hints == "" {
					c.play("> 1+ "+test.request+"}", "< 1"+unsupported)
					c.play("> 1+ "+test.request+answersK+"}", "< 1"+unsupported)
				} else {
					c.play("> 1+ "+test.request+"}", "< 1? "+asksK)
					c.play("> 2+ "+test.request+answersK+"}", "< 2"+test.hints+test.result)
					c.caps = "{}"
					c.play("> 3+ "+test.request+"}", "< 3! -32021 "+lacks+` {"requiredCapabilities":{"elicitation":{}}}`)
				}
			})
			inBubble(t, asker(askOnce), legacyPV, func(c *client) {
				want := "1! -32603 " + lacks
				if strings.HasPrefix(test.request, "tools/call") {
					want = "1 failed " + lacks
				}
				c.play("> 1 "+test.request+"}", "< "+want)
			})
		})
	}
	for name, ask := range map[string]askFunc{"elicitation.url": askURL, "sampling": askModel(`{}`), "sampling.tools": askModel(`{"tools":[]}`)} {
		inBubble(t, asker(ask), legacyPV, func(c *client) {
			c.play("> 1 call ask", "< 1 failed This request needs the "+name+" capability, which this client does not have")
		})
	}
}

// ---- arguments, derived and by hand ----

// checkByHand unmarshals arguments with a schema and with the same schema given by hand, and
// returns the error. Both must lead to the same error, or to values that are the same in
// encoding/json. What encoding/json reads without a conversion has these values too. It needs
// unexported names because AddTool takes no type that was made at run time.
func checkByHand(t *testing.T, typ reflect.Type, s *schema, args []byte) error {
	t.Helper()
	text := json.RawMessage(closeWith(s.appendNode(nil, "", nil)))
	listed := (&schemaParser{why: forArguments}).parse(text, "x", anything)
	var converted json.RawMessage
	got, want, direct := reflect.New(typ), reflect.New(typ), reflect.New(typ)
	err := (&rules{[]*schema{listed, s}, s}).unmarshal(args, got.Interface(), fromCall)
	if err != nil && namesGoBound(err.Error()) {
		return err
	}
	fault := (&rules{[]*schema{listed}, anything}).unmarshal(args, &converted, fromCall)
	if (fault == nil) != (err == nil) || fmt.Sprint(fault) != fmt.Sprint(err) && !duplicates(args) {
		t.Errorf("%s\nfor %s\nby hand %v\nderived %v", args, text, fault, err)
	}
	if fault != nil || err != nil {
		return err
	}
	if fault = json.Unmarshal(converted, want.Interface()); fault != nil || !reflect.DeepEqual(got.Interface(), want.Interface()) {
		t.Errorf("%s\ngot  %+v\nwant %+v %v of %s", args, got.Elem(), want.Elem(), fault, converted)
	}
	if !bytes.Contains(args, []byte("null")) && json.Unmarshal(args, direct.Interface()) == nil && !reflect.DeepEqual(got.Interface(), direct.Interface()) {
		t.Errorf("%s\ngot  %+v\nwant %+v", args, got.Elem(), direct.Elem())
	}
	return nil
}

// Arguments of any form are accepted and refused alike by a schema that is derived and by the
// same schema given by hand.
func FuzzArguments(f *testing.F) {
	types := []any{numbers{}, quoted{}, bounds{}, several{}, map[string]int8{}}
	for i := range types {
		for _, seed := range []string{
			`{"i":5.0,"b":"-128","u":-0,"f":"1.5e3","g":0.1,"t":"true"}`, `{"i":-9223372036854775808,"u":18446744073709551615,"p":null}`,
			`{"u":-1,"b":1.50e1,"c":1.5,"p":"0x1"}`, `{"i":15e-1}`,
			`{"l":[1,2.0,"3"],"o":"{\"x\":1}","m":{"":1,"a":"2"},"f":{"x":[null]},"s":"[1]","t":"x"}`, `{"l":"[1,null]"}`, `{"l":[1],"l":[2]}`,
			`{"n":-3,"u":2,"f":0.25,"s":"é","l":[],"e":"z"}`, `{"n":9,"m":"a@b","r":"x:y","d":"2025-01-02","t":"2025-01-02T03:04:05Z"}`,
			`{"unit":"mm","count":"1","name":"","tags":"a","at":{"x":1}}`, `{"a":127,"b":"-128"}`, `{"a":128}`, `{"":701e-1}`, `{"":-701e-1}`, `{"":701e-1701}`, `{"u":15e18}`, `{"m":{"":1,"":[]}}`,
		} {
			f.Add(byte(i), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		if !json.Valid(data) || !utf8.Valid(data) || data[0] != '{' {
			return
		}
		typ := reflect.TypeOf(types[int(which)%len(types)])
		s, _ := derive(typ, "In", forArguments)
		if err := checkByHand(t, typ, s, data); err == nil && duplicates(data) {
			t.Errorf("duplicates are accepted: %s", data)
		}
	})
}

// ---- fuzzing: templates ----

// A template matches what it expands to, and its values contain no "..".
func FuzzTemplate(f *testing.F) {
	f.Add("file:///{+dir}/{name}.txt", "file:///a/b/c.txt", "a/b", "c")
	f.Add("x:{a}-{b}", "x:%2e%2E-%2F", "..", "%2F")
	f.Add("x:{+a}a{+b}", "x:aaaa", "/a//b\\c/./?#", "é\x00")
	f.Add("x:{", "x:%", "../..", "\xff")
	f.Add("x:{a}", "x:C:..", "C:.", "a:..")
	f.Fuzz(func(t *testing.T, template, uri, dir, name string) {
		match := func(template, uri string) (map[string]string, bool) {
			prefix, vars, err := parseTemplate(template)
			if err != nil {
				return nil, false
			}
			values, ok := matchTemplate(prefix, vars, uri)
			for _, v := range vars {
				if value := values[v.name]; ok && !harmless(value, v.reserved) {
					t.Errorf("%q in %q: %s = %q", uri, template, v.name, value)
				}
			}
			return values, ok
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

// harmless reports whether a value is valid, in other words than the library does.
func harmless(value string, reserved bool) bool {
	segments := strings.Split(strings.NewReplacer(`\`, "/", "?", "/", "#", "/", ":", "/").Replace(value), "/")
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

// The scanner accepts what encoding/json accepts, and finds the same members.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,2.5e-3,-0,"\u00e9"]},"result":null,"error":true}`,
		`{"i\u0064":1,"id":2}`, `{"ID":1,"":{},"id":[]}`, "[1,]", `{"a":1,}`, `{"a"}`, `{"a":}`, `{,}`, `[01]`, `[-]`, `[1.]`, `[1e]`, `[1e+5,0.1E-7]`,
		`"\x"`, `"\v"`, `"\u12"`, `"\u12g4"`, "\"\x1f\"", `"abc`, `tru`, `nul`, `falsey`, ` { "a" : [ ] , "b" : { } } `, `{"a":1}x`, `[[[{"a":[{}]}]]]`, `{"\"":"\\"}`, `[1 2]`, `{"a" 1}`, `{1:2}`, `-01`, `"\`, `[`, `{"id":`, `1.0e`, `-1.5e3`, `true`,
		`"a"`, `"\\"`, `"\"\\\"\\\\"`, `"\ud83d\ude00\uD83D\n\udc00"`, `["\"0123456789abcdef\"","\"0123456789abc\\\"",1]`, `{"a":"{\"b\":\"c\\\\\"}"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !utf8.Valid(b) {
			return
		}
		i := skipSpace(b, 0)
		end := scan(b, i)
		valid := end >= 0 && skipSpace(b, end) == len(b)
		if want := json.Valid(b); valid != want {
			t.Fatalf("%.200q: valid: got %v, want %v", b, valid, want)
		}
		compact, err := compactJSON(b)
		if (err == nil) != valid {
			t.Errorf("appendCompact: %v", err)
		}
		if i < len(b) { // as accept would, which never sees an empty line
			extract(b[i:], untrusted) // must not panic
		}
		if !valid {
			return
		}
		var want bytes.Buffer
		json.Compact(&want, b)
		if same := bytes.Equal(compact, want.Bytes()); same != !hasHalf(string(b)) && !bytes.ContainsAny(b, "\u2028\u2029") {
			t.Errorf("appendCompact: got %q, want %q", compact, &want)
		}
		var written, given any // encoding/json reads half a character as U+FFFD, too
		json.Unmarshal(compact, &written)
		json.Unmarshal(b, &given)
		if hasHalf(string(compact)) || !reflect.DeepEqual(written, given) {
			t.Errorf("appendCompact: got %q for %q", compact, b)
		}
		b = b[i:end]
		for _, after := range []string{"", ",", ":", "]", "}", " ", "\t", "\r", "\n"} {
			if got := scan([]byte(string(b)+after), 0); got != len(b) {
				t.Errorf("scan(%q): got %d, want %d", string(b)+after, got, len(b))
			}
		}
		isID := b[0] == '"' && !hasHalf(string(b)) || isIDNumber(string(b))
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
		var id, method []byte
		extract(b, untrusted, into{"id", &id}, into{"method", &method})
		if string(id) != string(m["id"]) || string(method) != string(m["method"]) {
			t.Errorf("got the members %s and %s, want %s and %s", id, method, m["id"], m["method"])
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
func TestDepthIsBounded(t *testing.T) {
	for _, nest := range [][3]string{{"[", "", "]"}, {`{"":`, "1", "}"}, {`[{"":`, "[]", "}]"}} {
		for _, n := range []int{4999, 5000, 5001, 9999, 10000, 10001} {
			b := []byte(strings.Repeat(nest[0], n) + nest[1] + strings.Repeat(nest[2], n))
			if got, want := scan(b, 0) == len(b), json.Valid(b); got != want {
				t.Errorf("%d of %s: got %v, want %v", n, nest[0], got, want)
			}
		}
	}
}

// Strings are read and written as encoding/json does.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "plain", `\"\\\/\b\f\n\r\t`, `\u00e9\uD83D\uDE00`, `\ud800`, `\ud800\ud800\udc00`, `\udc00\ud800x`, `\ud800\u0041`, `\ud83dxude00`, `\ud83d\nde00`, `\ud83d`, `\uFFFD\ud800\n`, "\x00\x1f\x7f", "<>&", "\u2028\u2029\ufffd", "\xff\xc3\x28\xed\xa0\x80", `a\`, `"`} {
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

// isIDNumber reports whether a JSON number is an integer that is written in plain digits, or has at most 20 of them.
func isIDNumber(num string) bool {
	if num == "" || num[0] != '-' && (num[0] < '0' || num[0] > '9') {
		return false
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(num), "e")
	power, err := strconv.Atoi(cmp.Or(exponent, "0"))
	switch {
	case strings.Trim(num, "-0123456789") == "" || strings.Trim(mantissa, "-0.") == "":
		return true
	case err != nil || power < -1000 || power > 1000:
		return false // but for numbers of a thousand digits, which are not tried
	}
	value, _ := new(big.Rat).SetString(num)
	return value.IsInt() && len(strings.TrimPrefix(value.Num().String(), "-")) <= 20
}

// ---- fields of structs, against encoding/json ----

type (
	color   uint8 // text, by methods of the value
	lang    string
	valJSON struct{ A int }
	ptrJSON struct {
		A int `json:"a"`
		B []string
	}
	blob []byte // text, and not base64
	Deep struct {
		ID   int8 `json:"id"`
		Deep string
		X, Y int
	}
	Cycle struct {
		*Cycle
		V int
	}
	hidden struct{ Shown, ID, private int }
	joined struct {
		left
		right
		base
	}
	conflicts struct {
		*Deep
		hidden
		embeddedBase `json:"base,omitzero"`
		*Cycle
		fmt.Stringer
		Y     int    `json:"Y"`
		Space string `json:"a b<>&"`
		Dash  int    `json:"-,"`
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

func (b *blob) UnmarshalText(t []byte) error { *b = append(*b, t...); return nil }
func (b blob) MarshalText() ([]byte, error)  { return b, nil }

func errIf(bad bool) error {
	if bad {
		return fmt.Errorf("bad")
	}
	return nil
}

// judge is json.Marshal without escapes for HTML.
func judge(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// A chance makes values at random.
type chance struct{ *rand.Rand }

func (c chance) of(n int) bool { return c.IntN(n) == 0 }

// fill sets v to any value, including nil.
func (c chance) fill(v reflect.Value) {
	switch k := v.Kind(); {
	case k == reflect.Struct:
		for i := range v.NumField() {
			c.fill(v.Field(i))
		}
	case !v.CanSet(): // unexported
	case k == reflect.Bool:
		v.SetBool(c.of(2))
	case v.CanInt():
		v.SetInt(c.Int64() >> c.IntN(64))
	case k == reflect.String:
		v.SetString([]string{"", "null"}[c.IntN(2)])
	case c.of(3): // nil
	case k == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		c.fill(v.Elem())
	case k == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), c.IntN(3), 3))
	}
}

// The fields of a struct are those that encoding/json writes, in the same order, also for random
// names and embedded structs.
func TestFieldsEqualEncodingJSON(t *testing.T) {
	c := chance{rand.New(rand.NewPCG(1, 3))}
	pick := func(list ...string) string { return list[c.IntN(len(list))] }
	types := []reflect.Type{reflect.TypeFor[conflicts](), reflect.TypeFor[joined](), reflect.TypeFor[Cycle]()}
	var toEmbed []reflect.Type
	for x := range 6000 {
		if x%6 == 0 {
			toEmbed = nil
		}
		var fields []reflect.StructField
		for i := range c.IntN(4) {
			typ := []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[*string](), reflect.TypeFor[[]bool](), reflect.TypeFor[Deep]()}[c.IntN(4)]
			tag := `json:"` + pick("", "a", "A", "b", "F0", "F1", "x y", "é", "-", "0", "string") +
				pick("", "", "", ",", ",omitempty", ",string", ",omitzero", ",nonsense,omitempty", ", omitempty") + `"`
			fields = append(fields, reflect.StructField{Name: "F" + strconv.Itoa(i), Type: typ, Tag: reflect.StructTag(tag)})
		}
		if n := len(toEmbed); n > 0 {
			for i := range c.IntN(3) {
				fields = append(fields, reflect.StructField{Name: "E" + strconv.Itoa(i), Type: toEmbed[c.IntN(n)], Anonymous: !c.of(8)})
			}
		}
		toEmbed = append(toEmbed, reflect.StructOf(fields))
		types = append(types, toEmbed[len(toEmbed)-1])
	}
	for i, typ := range types {
		if embedsTwice(typ, make(map[reflect.Type]bool)) {
			continue
		}
		for range max(1, 60-20*i) {
			v := reflect.New(typ)
			c.fill(v.Elem())
			if line, err := judge(v.Interface()); err == nil && line[0] == '{' {
				checkFields(t, typ, line)
			}
		}
	}
}

// embedsTwice reports whether a struct that embeds another is itself embedded more than once.
func embedsTwice(typ reflect.Type, met map[reflect.Type]bool) bool {
	for i := range typ.NumField() {
		inner := typ.Field(i).Type
		if !typ.Field(i).Anonymous || inner.Kind() != reflect.Struct {
			continue
		}
		embeds := slices.ContainsFunc(reflect.VisibleFields(inner), func(f reflect.StructField) bool { return f.Anonymous })
		if met[inner] && embeds || embedsTwice(inner, met) {
			return true
		}
		met[inner] = true
	}
	return false
}

// checkFields compares the names of the fields of a schema with those that encoding/json has
// written. It needs unexported names because AddTool takes no type that was made at run time.
func checkFields(t *testing.T, typ reflect.Type, line string) {
	var got, want []string
	d := json.NewDecoder(strings.NewReader(line))
	for d.Token(); d.More(); {
		key, _ := d.Token()
		want = append(want, key.(string))
		var val json.RawMessage
		d.Decode(&val)
	}
	s, _ := derive(typ, "", forResults)
	for _, f := range s.fields {
		if slices.Contains(want, f.name) || !f.optional {
			got = append(got, f.name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v: got %q, want %q", typ, got, want)
	}
}

// Only an escape of half a character is replaced, whatever comes before it: \\ud83d is a backslash
// and a text. encoding/json reads the same value before and after.
func TestHalfCharactersAreFound(t *testing.T) {
	pieces := []string{`\\`, `\"`, `\n`, `\ud83d`, `\ude00`, `\uD83D`, `\uDE00`, `\u0041`, `\ufffd`, "u", "ud83d", "x"}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		text := `"`
		for range rng.IntN(8) {
			text += pieces[rng.IntN(len(pieces))]
		}
		text += `"`
		line := cleanJSON([]byte(text)[:len(text):len(text)]) // no byte after it may be read
		var before, after string
		if json.Unmarshal([]byte(text), &before) != nil || json.Unmarshal(line, &after) != nil || before != after {
			t.Fatalf("%s became %s", text, line)
		}
		if got, _ := unquote([]byte(text)); got != before {
			t.Fatalf("%s is %q, want %q", text, got, before)
		}
		isWhole := !strings.ContainsRune(before, utf8.RuneError) || strings.Count(before, "\ufffd") == strings.Count(strings.ReplaceAll(text, `\\`, ""), `\ufffd`)
		if isValidID([]byte(text)) != isWhole {
			t.Fatalf("%s as an id: %v", text, !isWhole)
		}
	}
}

// A combinator is reported, and nothing inside it is enforced.
func TestCombinatorsAreNotEnforced(t *testing.T) {
	byHand[json.RawMessage](&Server{}, `{"type":"object","properties":{},"":"a member without a name"}`)
	for _, inner := range []string{
		`{"type":"object","properties":{"a":true},"default":{}}`, `{"type":"object","properties":{"a":true},"enum":[{"a":1}]}`,
		`{"type":"integer","default":"x"}`, `{"required":["b"],"items":false}`, `true`, `{"type":"string","enum":[""]}`, `{"minimum":2,"maximum":1}`,
	} {
		for _, word := range []string{"allOf", "anyOf", "oneOf"} {
			s := &Server{}
			diagnostics(s)
			byHand[json.RawMessage](s, `{"type":"object","properties":{"x":{"`+word+`":[`+inner+`,{"type":"null"}]}}}`)
			try(t, s, trial{`{"x":{"a":1}}`, `{"x":{"a":1}}`})
		}
	}
}

// Each keyword of a schema by hand has the type that JSON Schema 2020-12 gives it, wherever it stands: a client that
// compiles the schema, or a provider, would refuse all tools. The same holds for output schemas and for what a method returns.
func TestKeywordsHaveTheirTypes(t *testing.T) {
	places := map[string]string{
		"properties.a.":                                     `{"type":"object","properties":{"a":{"type":"integer",%s}}}`,
		"properties.a.anyOf[1].":                            `{"type":"object","properties":{"a":{"anyOf":[{},{%s}]}}}`,
		"properties.a.not.allOf[0].":                        `{"type":"object","properties":{"a":{"not":{"allOf":[{%s}]}}}}`,
		"$defs.d.oneOf[0].items.":                           `{"type":"object","properties":{},"$defs":{"d":{"oneOf":[{"items":{%s}}]}}}`,
		"definitions.d.if.":                                 `{"type":"object","properties":{},"definitions":{"d":{"if":{%s}}}}`,
		"prefixItems[0].then.else.":                         `{"type":"object","properties":{},"prefixItems":[{"then":{"else":{%s}}}]}`,
		"patternProperties.^x.":                             `{"type":"object","properties":{},"patternProperties":{"^x":{%s}}}`,
		"additionalProperties.dependentSchemas.d.contains.": `{"type":"object","properties":{},"additionalProperties":{"dependentSchemas":{"d":{"contains":{%s}}}}}`,
	}
	for keyword, want := range map[string]string{
		`"exclusiveMinimum":true`:             "exclusiveMinimum must be a number, got true",
		`"exclusiveMaximum":"5"`:              `exclusiveMaximum must be a number, got "5"`,
		`"multipleOf":0`:                      "multipleOf must be above 0, got 0",
		`"description":5`:                     "description must be a string, got 5",
		`"title":null`:                        "title must be a string, got null",
		`"$comment":["x"]`:                    `$comment must be a string, got ["x"]`,
		`"$schema":{}`:                        "$schema must be a string, got {}",
		`"format":true`:                       "format must be a string, got true",
		`"pattern":null`:                      "pattern must be a string, got null",
		`"examples":"x"`:                      `examples must be an array, got "x"`,
		`"deprecated":"yes"`:                  `deprecated must be a boolean, got "yes"`,
		`"readOnly":1`:                        "readOnly must be a boolean, got 1",
		`"uniqueItems":null`:                  "uniqueItems must be a boolean, got null",
		`"minLength":"3"`:                     `minLength must be an integer, got "3"`,
		`"maxProperties":-1`:                  "maxProperties must be at least 0, got -1",
		`"minContains":1.5`:                   "minContains must be an integer, got 1.5",
		`"required":null`:                     "required must be an array, got null",
		`"required":["b",5]`:                  "required[1] must be a string, got 5",
		`"required":["b","\u0062"]`:           `required names "b" twice`,
		`"dependentRequired":{"b":["c","c"]}`: `dependentRequired.b names "c" twice`,
		`"dependentRequired":{"b":"c"}`:       `dependentRequired.b must be an array, got "c"`,
		`"anyOf":[]`:                          "anyOf must have a length of at least 1, got 0",
		`"oneOf":{"type":"string"}`:           `oneOf must be an array, got {"type":"string"}`,
		`"allOf":[5]`:                         "allOf[0] must be an object or a boolean, got 5",
		`"not":"string"`:                      `not must be an object or a boolean, got "string"`,
		`"$defs":[]`:                          "$defs must be an object, got []",
		`"definitions":{"x":null}`:            "definitions.x must be an object or a boolean, got null",
		`"items":[{}]`:                        "items must be an object or a boolean, got [{}]",
		`"contentSchema":1`:                   "contentSchema must be an object or a boolean, got 1",
		`"$vocabulary":{"x":"y"}`:             `$vocabulary.x must be a boolean, got "y"`,
		`"type":"str"`:                        `type must name types of JSON Schema, got "str"`,
		`"type":["string","string"]`:          `type names "string" twice`,
		`"type":[]`:                           "type must name types of JSON Schema, got []",
		`"type":null`:                         "type must be a string or an array, got null",
		`"$ref":"#/components/schemas/V"`:     `$ref leads nowhere in this schema, got "#/components/schemas/V"`,
		`"$ref":5`:                            "$ref must be a string, got 5",
	} {
		for place, schema := range places {
			if place == "properties.a." && strings.HasPrefix(keyword, `"type"`) {
				schema = strings.Replace(schema, `"type":"integer",`, "", 1)
			}
			text := fmt.Sprintf(schema, keyword)
			wantPanic(t, "InputSchema: "+place+want, onServer(func(s *Server) { byHand[any](s, text) }))
			wantPanic(t, "OutputSchema: "+place+want, onServer(out(point{}, nil, text)))
		}
	}
	// These are valid, or not looked at.
	for _, keyword := range []string{`"nullable":"x"`, `"id":5`, `"dependencies":5`, `"discriminator":1`, `"not":false`, `"enum":[1]`, `"$ref":"#"`,
		`"$ref":"#/properties"`, `"examples":[]`, `"multipleOf":0.1`, `"default":null`, `"const":1`, `"x-y":5`, `"type":["null"]`} {
		for _, schema := range places {
			s := &Server{}
			byHand[any](s, strings.Replace(fmt.Sprintf(schema, keyword), `"type":"integer","type"`, `"type"`, 1))
		}
	}
}

// A reference leads to a part of its own schema, and a pattern is one that JavaScript reads: clients compile both.
func TestWhatClientsCompile(t *testing.T) {
	for ref, leads := range map[string]bool{
		"#/$defs/a": true, "#/$defs/b~1c": true, "#/$defs/b%7E1c": true, "#/$defs/%C3%A4": true, "#/$defs/e~0f": true, "#/anyOf/0": true, "#/$defs": true,
		"#/$defs/x": false, "#/$defs/a/b": false, "#/anyOf/1": false, "#/anyOf/-1": false, "#/anyOf/x": false, "#/$defs/%zz": false, "#/": false, "#//": false, "#/type/0": false,
	} {
		schema := `{"type":"object","properties":{"v":{"$ref":"` + ref + `"}},"anyOf":[{}],"$defs":{"a":{},"b/c":{},"ä":{},"e~f":{}}`
		if leads {
			out(point{}, nil, schema+"}")(&Server{})
		} else {
			wantPanic(t, `OutputSchema: properties.v.$ref leads nowhere in this schema, got "`+ref, onServer(out(point{}, nil, schema+"}")))
		}
		// The pointer may begin below an $id, but not at the one of the schema itself.
		out(point{}, nil, schema+`,"items":{"$id":"https://x.example/y"}}`)(&Server{})
		if !leads {
			wantPanic(t, "leads nowhere in this schema", onServer(out(point{}, nil, schema+`,"$id":"https://x.example/y"}`)))
		}
	}
	const compiled = `mcp: tool "x": OutputSchema: properties.v.`
	const noRef, noPattern = compiled + "$ref is not a pointer into this schema: some clients cannot read it, and lose every tool\n",
		compiled + "pattern cannot be read by JavaScript: some clients cannot call the tool, or lose every tool\n"
	for keyword, want := range map[string]string{
		`"$ref":"other.json"`: noRef, `"$ref":"https://x.example/y#/z"`: noRef, `"$ref":""`: noRef, `"$ref":"#"`: "", `"$ref":"#anchor"`: noRef,
		`"pattern":"(?i)^v[0-9]+$"`: noPattern, `"pattern":"a\\z"`: noPattern, `"pattern":"[[:alpha:]]"`: noPattern, `"pattern":"\\pL"`: noPattern, `"pattern":"\\QxE"`: noPattern,
		`"pattern":"(?P<n>x)"`: noPattern, `"pattern":"("`: "", `"pattern":"(?"`: noPattern, `"pattern":"\\PL"`: noPattern,
		`"pattern":"(?:a)(?=b)(?!c)(?<d>e)(?<=f)"`: "", `"pattern":"\\p{L}\\(?a"`: "", `"pattern":"\\\\A"`: "", `"pattern":"\\d+"`: "", `"pattern":"[a[:]"`: "", `"pattern":"[^[:space:]]"`: noPattern, `"pattern":"[_[:alnum:]]"`: noPattern, `"pattern":"\\@"`: noPattern, `"pattern":"\\x{41}"`: "", `"pattern":"[\\-a]"`: "",
		`"pattern":"^\\d{3}\\-\\d{4}$"`: noPattern, `"pattern":"[a]\\-"`: noPattern, `"pattern":"[\\]\\-]"`: "", `"pattern":"\\[\\-"`: noPattern,
		`"pattern":"^[\\w-.]+$"`: noPattern, `"pattern":"[\\s-]"`: "", `"pattern":"[a-z\\d]-"`: "", `"pattern":"\\w-x"`: "",
		`"pattern":"^[a-z(?)]+$"`: "", `"pattern":"[:a]x[b:]"`: "",
	} {
		s := &Server{}
		out(point{}, nil, `{"type":"object","properties":{"v":{`+keyword+`}}}`)(s)
		if got := reports(t, s); got != want {
			t.Errorf("%s: reported %q, want %q", keyword, got, want)
		}
		if want != "" {
			s = &Server{}
			byHand[any](s, `{"type":"object","properties":{"v":{"type":"string","not":{`+keyword+`}}}}`)
			if got := reports(t, s); !strings.Contains(got, "not is not enforced") && !strings.Contains(got, "(and 1 more)") {
				t.Errorf("%s in arguments: reported %q", keyword, got)
			}
		}
	}
}

// Once the Server has served, a schema that is invalid costs its own tool, and not the program.
func TestInvalidSchemaAfterTheStart(t *testing.T) {
	s := &Server{CacheTTL: time.Second}
	said := diagnostics(s)
	toolOf[point](s)
	AddTool(s, Tool{Name: "y"}, echo[point])
	inBubble(t, s, legacyPV, func(c *client) {
		byHand[any](s, `{"type":"object","properties":{"a":{"minLength":null}}}`)
		last := func(request string) string {
			lines := c.ask(request)
			return lines[len(lines)-1]
		}
		if got := last("1 tools/list"); strings.Contains(got, `"name":"x"`) || !strings.Contains(got, `"name":"y"`) {
			t.Error(got)
		}
		if got := last(`2 call x {"x":1}`); !strings.Contains(got, "Unknown tool") {
			t.Error(got)
		}
		if got := last("3+ tools/list"); !strings.Contains(got, `"ttlMs":1000`) { // it may be cached
			t.Error(got)
		}
		toolOf[point](s)
		if got := last(`3 call x {"x":1}`); !strings.Contains(got, `{\"x\":1}`) {
			t.Error(got)
		}
	})
	const want = `mcp: tool "x": InputSchema: properties.a.minLength must be an integer, got null: it is left out`
	if !strings.Contains(said.String(), want) {
		t.Errorf("reported %q", said)
	}
}

// Bounds, enums and defaults that cannot be right are refused like that, too: a program may pass on the schemas of other
// servers while it runs.
func TestInvalidValuesAfterTheStart(t *testing.T) {
	for _, test := range []struct{ property, want string }{
		{`"o":{"type":"object","properties":{"x":{"type":"string"}},"default":{"x":null}}`, "InputSchema.o: default: x must be a string, got null"},
		{`"n":{"type":"integer","minimum":300}`, "InputSchema.n: nothing can be at least 300 and at most 255"},
		{`"n":{"type":"integer","enum":["1"]}`, `InputSchema.n: no value of enum is a valid integer: "1"`},
	} {
		s := &Server{}
		said := diagnostics(s)
		toolOf[none](s)
		add := func(s *Server) {
			byHand[struct {
				O map[string]any `json:"o"`
				N uint8          `json:"n"`
			}](s, `{"type":"object","properties":{`+test.property+`}}`)
		}
		wantPanic(t, `mcp: tool "x": `+test.want, func() { add(&Server{}) })
		inBubble(t, s, legacyPV, func(c *client) {
			add(s)
			c.play("< notifications/tools/list_changed", "> 1 call x", "< 1! -32602 Unknown tool: x (there is none)")
		})
		if got, want := said.String(), `mcp: tool "x": `+test.want+": it is left out\n"; got != want {
			t.Errorf("reported %q, want %q", got, want)
		}
	}
}

type nilMarshaler struct{ p *int }

func (m nilMarshaler) MarshalJSON() ([]byte, error) { return []byte{byte(*m.p)}, nil }

// Whatever AddTool, AddResource and AddPrompt refuse, a Server that has served goes on without it. Only a tool without a
// handler is a mistake that no data can cause.
func TestNoRefusalAfterTheStart(t *testing.T) {
	for _, test := range []struct {
		want string
		add  func(*Server)
	}{
		{`mcp: tool "a b": the name must have`, func(s *Server) { addEmpty(s, Tool{Name: "a b"}) }},
		{`mcp: tool "x": In.C: chan int cannot be described`, toolOf[struct{ C chan int }]},
		{`mcp: tool "x": Meta: unsupported`, func(s *Server) { addEmpty(s, Tool{Name: "x", Meta: map[string]any{"a": make(chan int)}}) }},
		{`mcp: tool "x": InputSchema: it is `, func(s *Server) { byHand[none](s, `{"type"`) }},
		{`mcp: tool "x": In.V: the method JSONSchema of mcp.panics panicked: `, toolOf[struct{ V panics }]},
		{`mcp: tool "x": runtime error: `, func(s *Server) { addEmpty(s, Tool{Name: "x", Meta: map[string]any{"a": nilMarshaler{}}}) }},
		{`mcp: resource "x:": the name is missing`, func(s *Server) { s.AddResource(Resource{URI: "x:"}, texts("a")) }},
		{`mcp: resource "x:": the ReadFunc is nil`, func(s *Server) { s.AddResource(Resource{URI: "x:", Name: "a"}, nil) }},
		{`mcp: prompt "": a prompt needs a name`, func(s *Server) { s.AddPrompt(Prompt{}, promptOf()) }},
	} {
		wantPanic(t, strings.TrimPrefix(test.want, `mcp: tool "x": runtime `), func() { test.add(&Server{}) })
		s := &Server{}
		said := diagnostics(s)
		for _, list := range lists {
			list.add(s, "kept", "")
		}
		inBubble(t, s, legacyPV, func(c *client) {
			test.add(s)
			c.play("> 1 ping", "< 1 {}")
			for _, list := range lists {
				if names := c.list(list.method, list.key, ""); names != "kept" {
					t.Errorf("%s %s: got %q", test.want, list.method, names)
				}
			}
		})
		if got := said.String(); !strings.HasPrefix(got, test.want) || !strings.HasSuffix(got, ": it is left out\n") || strings.Count(got, "\n") != 1 {
			t.Errorf("reported %q, want %q", got, test.want)
		}
		wantPanic(t, "the handler is nil", func() { AddTool[none, none](s, Tool{Name: "x"}, nil) })
	}
}

// If a schema allows a text and a list, a text is never taken for a null that it does not allow.
func TestTextsBesideLists(t *testing.T) {
	type in struct {
		L []string   `json:"l"`
		M [][]string `json:"m"`
	}
	const list = `{"type":["string","array"],"items":{"type":"string"}}`
	hand[in](`{"type":"object","properties":{"l":`+list+`,"m":{"type":"array","items":`+list+`}}}`)(t,
		trial{`{"l":"a","m":["b",["c"]]}`, `{"l":["a"],"m":[["b"],["c"]]}`},
		trial{`{"l":"","m":["","null"]}`, `{"l":[""],"m":[[""],["null"]]}`},
		trial{`{"m":[null]}`, `! m[0] must be a string or an array, got null`})
	hand[in](`{"type":"object","properties":{"l":{"type":["string","array","null"],"items":{"type":"string"}}}}`)(t,
		trial{`{"l":""}`, `{"l":null,"m":null}`}, trial{`{"l":"a"}`, `{"l":["a"],"m":null}`})
}

// A format of a date and base64 are checked in each text, whatever other types the schema allows.
func TestFormatsBesideSeveralTypes(t *testing.T) {
	hand[any](`{"type":"object","properties":{"d":{"type":["string","integer"],"format":"date"},`+
		`"b":{"type":["string","null"],"contentEncoding":"base64"},"t":{"format":"date-time"}}}`)(t,
		trial{`{"d":5,"b":null,"t":[]}`, `{"b":null,"d":5,"t":[]}`},
		trial{`{"d":"2026-01-31","b":"aGk=","t":"2026-01-31T09:30:00Z"}`, `{"b":"aGk=","d":"2026-01-31","t":"2026-01-31T09:30:00Z"}`},
		trial{`{"d":"x","b":"?","t":"y"}`, `! d must be of the format date, as in 2026-01-31, got "x"; b must be base64, got "?"; ` +
			`t must be of the format date-time, as in 2026-01-31T09:30:00Z, got "y"`})
}

// An array, which a schema by hand may describe as a list, does not lose elements.
func TestArraysHaveALength(t *testing.T) {
	hand[struct {
		A [2]int `json:"a"`
	}](`{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}}}`)(t,
		trial{`{"a":[1,2]}`, `{"a":[1,2]}`}, trial{`{"a":[1]}`, `{"a":[1,0]}`},
		trial{`{"a":[1,2,3]}`, `! a must have a length of at most 2, got 3`})
}

// What encoding/json says about a value is in words of JSON. Go 1.27 has other errors than earlier releases.
func TestFaultsWithoutGo(t *testing.T) {
	s := &Server{}
	byHand[struct {
		Q int         `json:"q,string"`
		N json.Number `json:"n"`
	}](s, `{"type":"object","properties":{"q":{"type":"string"},"n":{"type":["number","string"]}}}`)
	args := []string{`{"q":"x"}`, `{"q":""}`, `{"n":"x"}`}
	_, results := callX(t, s, args...)
	for i, r := range results {
		got := r.text()
		if !strings.HasPrefix(got, "! Invalid arguments: "+args[i][2:3]+" is not valid") || strings.Contains(got, "json: ") || strings.Contains(got, "unmarshal") {
			t.Errorf("%s: got %s", args[i], got)
		}
	}
}

// A nil pointer is left out of a result, unless the output schema requires the member.
func TestNilPointersThatAreRequired(t *testing.T) {
	type reply struct {
		V *string `json:"v"`
	}
	for _, test := range []struct{ property, required, want string }{
		{`{"type":["string","null"]}`, `[]`, `{}`},
		{`{"type":["string","null"]}`, `["v"]`, `{"v":null}`},
		{`{"type":"string"}`, `[]`, `{}`},
		{`{"type":"string"}`, `["v"]`, "! The result cannot be sent: v is null, which the output schema does not allow"},
	} {
		s := &Server{}
		out(reply{}, nil, `{"type":"object","properties":{"v":`+test.property+`},"required":`+test.required+`}`)(s)
		if _, results := callX(t, s, `{}`); results[0].text() != test.want {
			t.Errorf("%s, required %s: got %s, want %s", test.property, test.required, results[0].text(), test.want)
		}
	}
}

// An error need not follow the output schema, so what it says is not lost.
func TestErrorWithPartOfAResult(t *testing.T) {
	type reply struct {
		V *string `json:"v"`
	}
	s := &Server{}
	out(&Result{IsError: true, Content: []Content{Text("disk full")}, StructuredContent: reply{}}, nil,
		`{"type":"object","properties":{"v":{"type":"string"}},"required":["v"]}`)(s)
	if _, results := callX(t, s, `{}`); results[0].text() != "! disk full" {
		t.Errorf("got %s", results[0].text())
	}
}

// Types that a schema does not describe, but whose fields encoding/json sets, have exact names too.
func TestExactNamesInTypesWithoutASchema(t *testing.T) {
	type file struct {
		Path string `json:"path"`
	}
	const described = `{"type":"object","properties":{"f":{"type":"array","items":{"type":"object","properties":{"path":{"enum":["a.txt"]}}}},
		"w":{"type":"object","properties":{"path":{"enum":["a.txt"]}}}}}`
	hand[struct {
		F [1]file      `json:"f"`
		W writesItself `json:"w"`
	}](described)(t,
		trial{`{"f":[{"path":"a.txt","Path":"/etc/passwd"}]}`, "! f[0].Path is unknown (there is path)"},
		trial{`{"w":{"path":"a.txt","PATH":"/etc/passwd"}}`, "! w.PATH is unknown (there is path)"})
}

type writesItself struct {
	Path string `json:"path"`
}

func (w writesItself) MarshalJSON() ([]byte, error) { return []byte(`"` + w.Path + `"`), nil }

type tagged struct {
	X int `json:"x"`
}

// An embedded struct may have a name, and its type none that is exported.
func TestEmbeddedStructWithAName(t *testing.T) {
	ofType[struct {
		tagged `json:"t"`
	}](t, trial{`{"t":{"x":1}}`, `{"t":{"x":1}}`}, trial{`{"t":{"x":1,"X":2}}`, "! t.X is unknown (there is x)"})
}

// The bounds of a schema by hand are not those of the value that its text is converted to.
func TestBoundsOfAnotherKind(t *testing.T) {
	hand[struct {
		N int      `json:"n"`
		L []string `json:"l"`
		M map[string]int
	}](`{"type":"object","properties":{"n":{"type":"string","maxLength":2},"l":{"type":"string","minLength":3},"M":{"type":"string","maxLength":9}}}`)(t,
		trial{`{"n":"42","l":"hello","M":"{\"a\":1}"}`, `{"n":42,"l":["hello"],"M":{"a":1}}`},
		trial{`{"n":"420"}`, "! n must have a length of at most 2, got 3"})
}

// A tool that is left out is left out for every revision.
func TestLeftOutOfEveryList(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		c := serve(t, &s.Server)
		c.initialize("2025-06-18", `{}`)
		AddTool(&s.Server, Tool{Name: "bad", Icons: []Icon{{Theme: "grey"}}, OutputSchema: json.RawMessage(`{"type":"array","items":{"type":"integer"}}`)},
			func(context.Context, none) ([]int, error) { return nil, nil })
		c.recv()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if got := strings.Join(c.recv(), ""); strings.Contains(got, `,{}`) || strings.Contains(got, "bad") {
			t.Errorf("got %s", got)
		}
	})
}

// ---- types that describe their JSON form ----

type (
	place      struct{ lat, lon float64 } // [47.37, 8.54]
	volume     int                        // "low" or "high"
	filter     map[string]any             // an object
	embedsForm struct{ place }
	embedsText struct {
		describedOnly
		N int `json:"n"`
	}
	describedOnly struct{}
	refers        struct{}
	invalidOwn    struct{}
	flexible      int
	paint         struct{ hex string } // "#rrggbb", blue if it is left out
	readOnly      struct{ N int }      // only for arguments
	writeOnly     struct{ N int }      // only for results
)

func (c *paint) UnmarshalJSON(data []byte) error {
	if len(data) != len(`"#rrggbb"`) || data[1] != '#' {
		return fmt.Errorf("%s is not a color", data)
	}
	c.hex = string(data[1 : len(data)-1])
	return nil
}

func (paint) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","default":"#0000ff"}`)
}

func (*readOnly) UnmarshalJSON([]byte) error     { return nil }
func (readOnly) JSONSchema() json.RawMessage     { return json.RawMessage(`{"type":"string"}`) }
func (w writeOnly) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]int{"n": w.N}) }
func (writeOnly) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
}

func (p *place) UnmarshalJSON(data []byte) error {
	var pair [2]float64
	err := json.Unmarshal(data, &pair)
	p.lat, p.lon = pair[0], pair[1]
	return err
}

func (p place) MarshalJSON() ([]byte, error) { return json.Marshal([]float64{p.lat, p.lon}) }

func (*place) JSONSchema() json.RawMessage {
	return json.RawMessage(`{ "type":"array", "items":{"type":"number"}, "minItems":2, "maxItems":2, "description":"latitude and longitude" }`)
}

func (l *volume) UnmarshalJSON(data []byte) error {
	*l = volume(slices.Index([]string{`"low"`, `"high"`}, string(data)))
	return nil
}

func (volume) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["low","high"]}`)
}

func (f filter) MarshalJSON() ([]byte, error)     { return json.Marshal(map[string]any(f)) }
func (f *filter) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, (*map[string]any)(f)) }

func (filter) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer","default":5}},"additionalProperties":false}`)
}

func (describedOnly) JSONSchema() json.RawMessage { return json.RawMessage(`{"type":"string"}`) }
func (refers) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"array","items":{"$ref":"#/$defs/a"}}`)
}
func (invalidOwn) JSONSchema() json.RawMessage    { return json.RawMessage(`{"type":"text"}`) }
func (*flexible) UnmarshalJSON(data []byte) error { return nil }

// A type with a method JSONSchema is described by it, at any depth: in arguments, in results and in
// SchemaOf. Its UnmarshalJSON reads what the schema allows.
func TestTypesDescribeThemselves(t *testing.T) {
	type in struct {
		At   place             `json:"at" jsonschema:"where"`
		To   *place            `json:"to,omitempty"`
		Via  []place           `json:"via,omitempty"`
		By   map[string]volume `json:"by,omitempty"`
		Rank volume            `json:"rank" default:"high"`
	}
	s := &Server{}
	toolOf[in](s)
	const own = `{"description":"latitude and longitude","type":"array","items":{"type":"number"},"minItems":2,"maxItems":2}`
	want := `{"type":"object","properties":{"at":{"description":"where","type":"array","items":{"type":"number"},"minItems":2,"maxItems":2},` +
		`"to":` + own + `,"via":{"type":"array","items":` + own + `},` +
		`"by":{"type":"object","properties":{},"additionalProperties":{"type":"string","enum":["low","high"]}},` +
		`"rank":{"default":"high","type":"string","enum":["low","high"]}},"required":["at"],"additionalProperties":false}`
	if got := string(member(s.lists[tools].byName["x"].encoded, "inputSchema")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(SchemaOf[[]place]()); got != `{"type":"array","items":`+own+`}` {
		t.Errorf("SchemaOf: %s", got)
	}
	s = &Server{}
	AddTool(s, Tool{Name: "x"}, func(_ context.Context, in in) (string, error) {
		return fmt.Sprint(in.At, in.To, in.Via, in.By, in.Rank), nil
	})
	try(t, s, []trial{
		{`{"at":[1,2]}`, "{1 2} <nil> [] map[] 1"},
		{`{"at":"[1,2]","via":[[3,"4"]],"by":{"a":"low"},"rank":"low"}`, "{1 2} <nil> [{3 4}] map[a:0] 0"},
		{`{"at":[1],"via":[[1,2],[true,2]],"by":{"a":"mid"}}`, `! at must have a length of at least 2, got 1; via[1][0] must be a number, got true; by.a must be one of "low", "high", got "mid"`},
	}...)
	s = &Server{}
	AddTool(s, Tool{Name: "x"}, func(_ context.Context, in filter) (filter, error) { return in, nil })
	try(t, s, []trial{{`{}`, `{"a":5}`}, {`{"b":1}`, "! b is unknown (there is a)"}}...)
	if raw := s.lists[tools].byName["x"].encoded; member(raw, "outputSchema") == nil {
		t.Errorf("no output schema in %s", raw)
	}
}

type (
	writtenByPointer struct {
		N int `json:"n"`
	}
	textByPointer int
)

func (w *writtenByPointer) MarshalJSON() ([]byte, error) { return json.Marshal([]int{w.N}) }
func (*writtenByPointer) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"array","items":{"type":"integer"}}`)
}
func (*textByPointer) MarshalText() ([]byte, error) { return []byte("text"), nil }
func (textByPointer) JSONSchema() json.RawMessage   { return json.RawMessage(`{"type":"string"}`) }

// An element of a map has no address, so encoding/json writes it without the methods of the pointer, and the schema of a result
// says so. A value that a pointer or a list holds has one.
func TestMethodsOfPointersInMaps(t *testing.T) {
	const list, object, text = `{"type":"array","items":{"type":"integer"}}`, `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`, `{"type":"string"}`
	type Holder struct {
		W writtenByPointer
	}
	maps := func(elements string) string {
		return `{"type":"object","properties":{},"additionalProperties":` + elements + `}`
	}
	in := func(member string) string {
		return `{"type":"object","properties":{"W":` + member + `},"required":["W"],"additionalProperties":false}`
	}
	pair := place{1, 2}
	for _, test := range []struct {
		add          func(*Server)
		schema, text string
	}{
		{out(map[string]writtenByPointer{"a": {1}}, nil), maps(object), `{"a":{"n":1}}`},
		{out(map[string]*writtenByPointer{"a": {1}}, nil), maps(list), `{"a":[1]}`},
		{out(map[string][]writtenByPointer{"a": {{1}}}, nil), maps(`{"type":"array","items":` + list + `}`), `{"a":[[1]]}`},
		{out(map[string]Holder{"a": {writtenByPointer{1}}}, nil), maps(in(object)), `{"a":{"W":{"n":1}}}`},
		{out(map[string]*Holder{"a": {writtenByPointer{1}}}, nil), maps(in(list)), `{"a":{"W":[1]}}`},
		{out(Holder{writtenByPointer{1}}, nil), in(list), `{"W":[1]}`},
		{out(map[string]textByPointer{"a": 1}, nil), maps(`{"type":"integer"}`), `{"a":1}`},
		{out(map[string]*textByPointer{"a": ptr(textByPointer(1))}, nil), maps(text), `{"a":"text"}`},
		{out(struct {
			A writtenByPointer
			B map[string]writtenByPointer
		}{B: map[string]writtenByPointer{"b": {1}}}, nil), `{"type":"object","properties":{"A":` + list + `,"B":` + maps(object) + `},"required":["A","B"],"additionalProperties":false}`,
			`{"A":[0],"B":{"b":{"n":1}}}`},
		{out(map[string]struct{ Holder }{"a": {}}, nil), maps(in(object)), `{"a":{"W":{"n":0}}}`},
		{out(map[string]struct{ *Holder }{"a": {&Holder{}}}, nil), maps(strings.Replace(in(list), `"required":["W"],`, "", 1)), `{"a":{"W":[0]}}`},
		// MarshalJSON is of the value. It does not matter that JSONSchema is of the pointer.
		{out(map[string]place{"a": pair}, nil), maps(`{"description":"latitude and longitude","type":"array","items":{"type":"number"},"minItems":2,"maxItems":2}`), `{"a":[1,2]}`},
	} {
		s := &Server{}
		test.add(s)
		tool, results := callX(t, s, "{}")
		if text := results[0].text(); string(tool.OutputSchema) != test.schema || text != test.text {
			t.Errorf("got  %s, %s\nwant %s, %s", tool.OutputSchema, text, test.schema, test.text)
		}
	}
	// What is read into a map has an address for that time.
	s := &Server{}
	toolOf[map[string]place](s)
	try(t, s, trial{`{"a":[1,2]}`, `{"a":[1,2]}`})
}

// An error of UnmarshalJSON has its place. It comes if there is no fault by the schema. A default in the
// schema makes an argument optional, and must be one that UnmarshalJSON accepts.
func TestFaultsOfTypesThatDescribeThemselves(t *testing.T) {
	type in struct {
		C    paint            `json:"c"`
		L    []paint          `json:"l,omitempty"`
		M    map[string]paint `json:"m,omitempty"`
		P    *paint           `json:"p,omitempty"`
		Nest struct {
			C paint `json:"c"`
		} `json:"nest,omitzero"`
		N   int  `json:"n"`
		Box *box `json:"box"`
	}
	s := &Server{}
	AddTool(s, Tool{Name: "x"}, func(_ context.Context, in in) (string, error) {
		return fmt.Sprint(in.C, in.L, in.M, in.P != nil, in.Nest, in.N), nil
	})
	try(t, s, []trial{
		{`{"n":1}`, "{#0000ff} [] map[] true {{}} 1"},
		{`{"n":1,"c":"#ffffff","l":"#ff0000","m":{"a":"#00ff00"},"p":null,"nest":{}}`, "{#ffffff} [{#ff0000}] map[a:{#00ff00}] true {{#0000ff}} 1"},
		{`{"n":"x","c":"red"}`, `! n must be an integer, got "x"`},
		{`{"n":1,"c":"red","l":["#ff0000","blue"],"m":{"a":"green"},"p":"pink","nest":{"c":"grey"}}`,
			`! c is not valid: "red" is not a color; l[1] is not valid: "blue" is not a color; ` +
				`m.a is not valid: "green" is not a color; p is not valid: "pink" is not a color; nest.c is not valid: "grey" is not a color`},
		{`{"n":1,"box":{"w":"x"}}`, `! box.w must be an integer, got "x"`}, // UnmarshalJSON sees only what the schema allows
		{`{` + strings.Repeat(`"x":0,`, 11) + `"box":5}`, "! x is unknown (there is c, l, m, p, nest, n, box)" +
			strings.Repeat("; x is unknown (there is c, l, m, p, nest, n, box)", 9) + "; there may be more"}, // nor do many faults hide another
		{`{"n":1,"box":{"w":0}}`, `! box is not valid: "0" is no width`},
	}...)
	wantPanics(t, []mistake{
		{`In.C: default: is not valid: "red" is not a color`, onServer(toolOf[struct {
			C paint `default:"red"`
		}])},
		{`In.N.C: default: is not valid: "red" is not a color`, onServer(toolOf[struct {
			N struct {
				C paint `default:"red"`
			}
		}])},
		{`In.L[].C: default: is not valid: "red" is not a color`, onServer(toolOf[struct {
			L []struct {
				C paint `default:"red"`
			}
		}])},
		{`In.M[].C: default: is not valid: "red" is not a color`, onServer(toolOf[struct {
			M map[string]struct {
				C paint `default:"red"`
			}
		}])},
		{`InputSchema.C: default: is not valid: "red" is not a color`, func() {
			byHand[struct{ C paint }](&Server{}, `{"type":"object","properties":{"C":{"type":"string","default":"red"}}}`)
		}},
	})
}

// A type that only reads its JSON form describes arguments, and one that only writes it results. For
// the other it is as if it had no method JSONSchema. A pointer has no output schema.
func TestTypesThatDescribeOneDirection(t *testing.T) {
	outputOf := func(add func(*Server)) string {
		s := &Server{}
		add(s)
		return string(member(s.lists[tools].byName["x"].encoded, "outputSchema"))
	}
	const written = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	for _, test := range []struct {
		add  func(*Server)
		want string
	}{
		{out(writeOnly{1}, nil), written},
		{out(&writeOnly{1}, nil), ""},
		{out(struct{ W writeOnly }{}, nil), `{"type":"object","properties":{"W":` + written + `},"required":["W"],"additionalProperties":false}`},
		{out(readOnly{1}, nil), ""},
		{out(struct{ R readOnly }{}, nil), ""},
	} {
		if got := outputOf(test.add); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
	toolOf[struct{ R readOnly }](&Server{})
	wantPanics(t, []mistake{{"it has a JSON form of its own: give it UnmarshalJSON", onServer(toolOf[struct{ W writeOnly }])}})
}

// A method that is promoted counts only together with the JSON form. A schema that is invalid or refers
// to another root panics, and so does a method that panics. A type without the method says what to write.
func TestTypesThatCannotDescribeThemselves(t *testing.T) {
	if got := string(SchemaOf[embedsForm]()); !strings.Contains(got, `"type":"array"`) {
		t.Error(got)
	}
	if got := string(SchemaOf[embedsText]()); got != `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}` {
		t.Error(got)
	}
	wantPanics(t, []mistake{
		{"In.A: the method JSONSchema of mcp.refers: $ref would point to another root", onServer(toolOf[struct{ A refers }])},
		{`In.A: the method JSONSchema of mcp.wrongList returns`, onServer(toolOf[struct {
			A wrongList
			B invalidOwn
		}])},
		{`In.A: the method JSONSchema of mcp.invalidOwn returns the type "text", but its JSON is of type object: `, onServer(toolOf[struct{ A invalidOwn }])},
		{"SchemaOf: the method JSONSchema of mcp.refers", func() { SchemaOf[refers]() }},
		{"In.A: mcp.flexible cannot be described: it has a JSON form of its own: give it UnmarshalJSON and JSONSchema() json.RawMessage, or write a plain type, such as string or int",
			onServer(toolOf[struct{ A flexible }])},
		{"has no effect here", onServer(toolOf[struct {
			A volume `maxLength:"3"`
		}])},
		{"enum must be on a plain string", onServer(toolOf[struct {
			A volume `enum:"low"`
		}])},
		{"enum must be on a plain string", onServer(toolOf[struct {
			A []volume `enum:"low"`
		}])},
		{"In.A: default: must be one of", onServer(toolOf[struct {
			A volume `default:"mid"`
		}])},
		{"a form has strings", func() { Elicit[struct{ A place }](t.Context(), "?") }},
	})
}

type (
	appends   string   // its UnmarshalJSON writes behind what it is given
	lowers    string   // its UnmarshalJSON writes into it
	plainSelf struct { // describes itself, and has no JSON form of its own
		Path string `json:"path"`
		N    *int   `json:"n"`
		L    []int  `json:"l"`
	}
	wordSelf string
	nullSelf string
	pairSelf struct{ A, B picky }
	picky    string
	badSelf  int
	panics   struct{ P *int }
)

func (a *appends) UnmarshalJSON(b []byte) error {
	_ = append(b, strings.Repeat("X", 50)...)
	return json.Unmarshal(b, (*string)(a))
}
func (appends) JSONSchema() json.RawMessage { return json.RawMessage(`{"type":"string"}`) }
func (l *lowers) UnmarshalJSON(b []byte) error {
	copy(b, bytes.ToLower(b))
	return json.Unmarshal(b, (*string)(l))
}
func (lowers) JSONSchema() json.RawMessage { return json.RawMessage(`{"type":"string"}`) }
func (plainSelf) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)
}
func (wordSelf) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["5","true"]}`)
}
func (*picky) UnmarshalJSON([]byte) error { return errors.New("never") }
func (pairSelf) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"A":{"type":"string"},"B":{"type":"string"}}}`)
}
func (nullSelf) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","default":null}`)
}
func (badSelf) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","default":"x"}`)
}
func (panics) JSONSchema() json.RawMessage { panic("called") }

// A box has a JSON form with members.
type box struct{}

func (box) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"w":{"type":"integer"}},"required":["w"]}`)
}

func (*box) UnmarshalJSON(raw []byte) error {
	var v struct{ W json.RawMessage }
	if json.Unmarshal(raw, &v) != nil || string(v.W) != "1" {
		return fmt.Errorf("%q is no width", v.W)
	}
	return nil
}

// A method UnmarshalJSON that writes into what it is given, or behind it, harms neither the next request
// nor a default.
func TestUnmarshalJSONThatWrites(t *testing.T) {
	type in struct {
		A appends `json:"a"`
		B string  `json:"b"`
		C lowers  `json:"c" default:"ABC"`
	}
	s := &Server{}
	toolOf[in](s)
	byHandToo := &Server{}
	byHand[in](byHandToo, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string","default":"ABC"}}}`)
	for _, s := range []*Server{s, byHandToo} {
		bubble(t, func(t *testing.T, _ *stage) {
			c := serve(t, s)
			c.initialize(legacyPV, `{}`)
			call := `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x","arguments":{"a":"1","b":"hello","c":"ABC"}},"id":%d}` + "\n"
			io.WriteString(c.in, fmt.Sprintf(call+call+call, 1, 2, 3))
			got := c.recv()
			for i, line := range got {
				if !strings.Contains(line, fmt.Sprintf(`"id":%d,`, i+1)) || !strings.Contains(line, `"b":"hello","c":"abc"`) && !strings.Contains(line, `\"b\":\"hello\",\"c\":\"abc\"`) {
					t.Errorf("got %s", line)
				}
			}
			if len(got) != 3 {
				t.Errorf("%d responses", len(got))
			}
			if listed := c.ask(`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`); !strings.Contains(listed[0], `"default":"ABC"`) {
				t.Errorf("listed: %s", listed)
			}
		})
	}
}

// A type that describes itself and has no JSON form of its own is checked by its Go type too. Its method is
// not called while a call is served.
func TestPlainTypesThatDescribeThemselves(t *testing.T) {
	s := &Server{}
	AddTool(s, Tool{Name: "x"}, func(_ context.Context, in struct {
		P plainSelf `json:"p"`
		W wordSelf  `json:"w" default:"5"`
	}) (plainSelf, error) {
		return plainSelf{Path: in.P.Path + string(in.W)}, nil
	})
	try(t, s, []trial{
		{`{"p":{"path":"a"}}`, `{"path":"a5","l":[]}`},
		{`{"p":{"Path":"a"}}`, "! p.Path is unknown (there is path, n, l)"},
		{`{"p":{"path":"a","l":["x"]}}`, `! p.l[0] must be an integer, got "x"`},
	}...)
	if got := string(SchemaOf[struct{ N nullSelf }]()); !strings.Contains(got, `"required":["N"]`) {
		t.Error(got)
	}
	wantPanics(t, []mistake{
		{"In.A: default: must be an integer", onServer(toolOf[struct{ A badSelf }])},
		{"has no effect here", onServer(toolOf[struct {
			P wordSelf `minLength:"1"`
		}])},
		{"format must be", onServer(toolOf[struct {
			P wordSelf `format:"date"`
		}])},
	})
	hand[pairSelf](openSchema)(t, trial{`{"A":"a","B":"b"}`, "! A is not valid: never; B is not valid: never"})
	s = &Server{}
	AddTool(s, Tool{Name: "x"}, func(context.Context, none) (any, error) { return []panics{{}}, nil })
	try(t, s, trial{`{}`, `[{}]`})
}

// A list may be stored in bytes if the schema by hand says so, as encoding/json does.
func TestBytesAsLists(t *testing.T) {
	type in struct {
		S []byte   `json:"s"`
		L [][]byte `json:"l"`
		A [3]byte  `json:"a"`
	}
	list := `{"type":"array","items":{"type":"integer"}}`
	s := &Server{}
	AddTool(s, Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object","properties":{"s":` + list + `,"l":{"type":"array","items":` + list + `},"a":` + list + `}}`)},
		func(_ context.Context, in in) (string, error) { return fmt.Sprint(in.S, in.L, in.A), nil })
	try(t, s, trial{`{"s":[1,2],"l":[[3]],"a":[4,5,6]}`, "[1 2] [[3]] [4 5 6]"})
	text := &Server{}
	byHand[in](text, `{"type":"object","properties":{"s":{"type":"string"}}}`)
	try(t, text, trial{`{"s":[1,2]}`, "! s must be a string, got [1,2]"})
}

type (
	vector      [3]float64         // encoding/json reads and writes it without a method
	anyParts    struct{ A, B any } // so are these
	byNumber    map[int]string
	namedColor  string             // an enum
	seconds     int                // shown as a text, which encoding/json does not write
	falseChoice []string           // shown as a boolean
	wrongList   struct{ N int }    // shown as a list
	roundAndOn  struct{ Next int } // shows itself by SchemaOf
	there       struct{ N int }    // there and back show each other
	back        struct{ N int }
	textual     struct{ s string } // shown as a text, and is one by its methods
	asksOther   struct{ N int }    // shows a type by SchemaOf whose method panics
)

func (vector) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"array","items":{"type":"number"},"minItems":3,"maxItems":3}`)
}
func (anyParts) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"A":{"type":"string"},"B":{"type":"string"}}}`)
}
func (byNumber) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","additionalProperties":{"type":"string"}}`)
}
func (namedColor) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["red","blue"]}`)
}
func (falseChoice) JSONSchema() json.RawMessage { return json.RawMessage(`{"type":"boolean"}`) }
func (seconds) JSONSchema() json.RawMessage     { return json.RawMessage(`{"type":"string"}`) }
func (wrongList) JSONSchema() json.RawMessage   { return json.RawMessage(`{"type":["array","boolean"]}`) }
func (roundAndOn) JSONSchema() json.RawMessage  { return SchemaOf[roundAndOn]() }
func (there) JSONSchema() json.RawMessage       { return SchemaOf[[]back]() }
func (back) JSONSchema() json.RawMessage        { return SchemaOf[struct{ T *there }]() }
func (textual) JSONSchema() json.RawMessage     { return json.RawMessage(`{"type":"string"}`) }
func (asksOther) JSONSchema() json.RawMessage   { return SchemaOf[panics]() }
func (t *textual) UnmarshalText(b []byte) error { t.s = string(b); return nil }
func (t textual) MarshalText() ([]byte, error)  { return []byte(t.s), nil }

// Inside of a type whose JSONSchema counts, nothing needs to be described, because nothing of it is shown.
func TestWhatAMethodShowsIsDescribed(t *testing.T) {
	type in struct {
		V vector     `json:"v"`
		P anyParts   `json:"p,omitzero"`
		N byNumber   `json:"n,omitempty"`
		C namedColor `json:"c,omitempty"`
	}
	derived[in](t,
		trial{`{"v":[1,2,3],"p":{"A":"x"},"n":{"1":"one"},"c":"red"}`, `{"v":[1,2,3],"p":{"A":"x","B":null},"n":{"1":"one"},"c":"red"}`},
		trial{`{"v":[1,2]}`, "! v must have a length of at least 3, got 2"},
		trial{`{"v":[1,2,3],"c":"green"}`, `! c must be one of "red", "blue", got "green"`})
	out(in{V: vector{1}}, nil)(&Server{})
	if got := string(SchemaOf[[]vector]()); got != `{"type":"array","items":{"type":"array","items":{"type":"number"},"minItems":3,"maxItems":3}}` {
		t.Error(got)
	}
	// The same type elsewhere, where it is shown, still is an error.
	type bare struct{ A [3]float64 }
	wantPanics(t, []mistake{
		{"In.B.A: [3]float64 cannot be described", onServer(toolOf[struct {
			V vectors
			B bare
		}])},
		{"In.A: [3]float64 cannot be described", onServer(toolOf[bare])},
	})
	// In a form it counts as what it is shown as.
	inBothErasAsk(t, func(ctx context.Context) (string, error) {
		form, err := Elicit[struct {
			C namedColor `json:"c"`
		}](ctx, "Which?")
		return string(form.C), err
	}, [][]asked{{{"k", "elicitation/create",
		`{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"c":{"type":"string","enum":["red","blue"]}},"required":["c"]}}`,
		`{"action":"accept","content":{"c":"blue"}}`}}}, "blue")
}

type vectors struct{ A [3]float64 }

func (vectors) JSONSchema() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

// A method JSONSchema that cannot be right is refused at registration: each call would fail otherwise, or the program
// would end by a stack overflow.
func TestMethodsThatCannotBeRight(t *testing.T) {
	wantPanics(t, []mistake{
		{`the method JSONSchema of mcp.seconds returns the type "string", but its JSON is of type integer: give it MarshalJSON`, onServer(out(struct{ S seconds }{}, nil))},
		{`the method JSONSchema of mcp.wrongList returns the type ["array","boolean"], but its JSON is of type object: give it UnmarshalJSON`, onServer(toolOf[struct{ L []wrongList }])},
		{`the method JSONSchema of mcp.wrongList returns`, func() { SchemaOf[wrongList]() }},
		{`the method JSONSchema of mcp.falseChoice returns the type "boolean", but its JSON is of type array`, func() { Elicit[struct{ F falseChoice }](t.Context(), "?") }},
		{`mcp: tool "x": In.P[]: the method JSONSchema of mcp.panics panicked: called`, onServer(toolOf[struct{ P []panics }])},
		{"mcp: SchemaOf: the method JSONSchema of mcp.panics panicked: called", onServer(out(asksOther{}, nil))},
		{"mcp.roundAndOn: it comes back to itself", onServer(toolOf[struct{ R roundAndOn }])},
		{"mcp.roundAndOn: it comes back to itself", func() { SchemaOf[[]roundAndOn]() }},
		{": it comes back to itself", onServer(toolOf[struct{ T there }])},
		{": it comes back to itself", onServer(out(back{}, nil))},
	})
	texts := &Server{}
	toolOf[struct{ S seconds }](texts)
	try(t, texts, trial{`{"S":"5"}`, `{"S":5}`}, trial{`{"S":5}`, `{"S":5}`}) // a text may hold an argument of any type
	derived[struct{ T textual }](t, trial{`{"T":"a"}`, `{"T":"a"}`})          // its text methods read and write it
	// With a schema by hand, what the method shows does not matter.
	hand[struct{ S seconds }](`{"type":"object","properties":{"S":{"type":"integer"}}}`)(t, trial{`{"S":5}`, `{"S":5}`})
	// Once the Server has served, it costs only the tool.
	s := &Server{}
	said := diagnostics(s)
	toolOf[point](s)
	inBubble(t, s, legacyPV, func(c *client) {
		toolOf[struct{ L wrongList }](s)
		lines := c.ask(`1 call x {"x":1}`)
		if got := lines[len(lines)-1]; !strings.Contains(got, "Unknown tool") {
			t.Error(got)
		}
	})
	if !strings.Contains(said.String(), `mcp: tool "x": In.L: the method JSONSchema of mcp.wrongList returns the type ["array","boolean"], but its JSON is of type object: give it UnmarshalJSON: it is left out`) {
		t.Errorf("reported %q", said)
	}
}

// What the Go type makes of a text is checked by the listed schema too: a text that is valid must not hold what is not.
func TestWhatWasConvertedIsChecked(t *testing.T) {
	type file struct {
		Path string `json:"path"`
		Mode int    `json:"mode"`
	}
	hand[struct {
		F *file   `json:"file"`
		L []file  `json:"list"`
		N float64 `json:"n"`
		D int     `json:"d"`
	}](`{"type":"object","properties":{"file":{"type":["object","string"],"properties":{"path":{"type":"string","enum":["a.txt"]}},"required":["path"]},
		"list":{"type":"array","items":{"type":["object","string"],"properties":{"path":{"const":"b.txt"}}}},
		"n":{"type":["number","string"]},"d":{"type":"string","maxLength":3}}}`)(t,
		trial{`{"file":{"path":"/etc/passwd"}}`, `! file.path must be one of "a.txt", got "/etc/passwd"`},
		trial{`{"file":"{\"path\":\"/etc/passwd\"}"}`, `! file.path must be one of "a.txt", got "/etc/passwd"`},
		trial{`{"file":"{\"path\":\"a.txt\",\"mode\":\"5\"}"}`, `{"file":{"path":"a.txt","mode":5},"list":null,"n":0,"d":0}`},
		trial{`{"file":"{\"mode\":5}"}`, "! file.path is required"},
		trial{`{"list":["{\"path\":\"c.txt\"}"]}`, `! list[0].path must be one of "b.txt", got "c.txt"`},
		trial{`{"list":"[\"{}\",{\"path\":\"b.txt\"}]"}`, `{"file":null,"list":[{"path":"","mode":0},{"path":"b.txt","mode":0}],"n":0,"d":0}`},
		trial{`{"n":"4","d":"12"}`, `{"file":null,"list":null,"n":4,"d":12}`}, // a type that is only a text here stays one for the schema
		trial{`{"d":"1234"}`, "! d must have a length of at most 3, got 4"})
	// So are members that the Go type takes in any form, and a member that is null is absent, as in an object that is sent as one.
	hand[struct {
		M map[string]any `json:"m"`
	}](`{"type":"object","properties":{"m":{"type":["object","string"],"properties":{"n":{"type":"integer","default":5}},
		"additionalProperties":{"type":"boolean"}}}}`)(t,
		trial{`{"m":"{\"n\":\"x\",\"a\":[]}"}`, `! m.n must be an integer, got "x"; m.a must be a boolean, got []`},
		trial{`{"m":"{\"n\":null,\"a\":\"true\"}"}`, `{"m":{"a":true,"n":5}}`})
	// A value that was valid as it came stays so, whatever the Go type makes of it.
	hand[struct {
		V int      `json:"v"`
		S string   `json:"s"`
		L []string `json:"l"`
		B bool     `json:"b"`
		N []int    `json:"n"`
	}](`{"type":"object","properties":{"v":{"enum":["1","2"],"default":"2"},"s":{"enum":[1,2]},"l":{"enum":["a","b"]},"b":{"const":"true"},
		"n":{"type":"array","items":{"enum":["1"]}}}}`)(t,
		trial{`{"v":"1","s":2,"l":"a","b":"true","n":["1"]}`, `{"v":1,"s":"2","l":["a"],"b":true,"n":[1]}`},
		trial{`{}`, `{"v":2,"s":"","l":null,"b":false,"n":null}`},
		trial{`{"v":1}`, `! v must be one of "1", "2", got 1`})
	// So it is if the enum has values of both types.
	hand[struct {
		L []string         `json:"l"`
		M map[string][]int `json:"m"`
	}](`{"type":"object","properties":{"l":{"enum":["a",["b"]]},"m":{"enum":[[],{"a":[1]}]}}}`)(t,
		trial{`{"l":"a","m":[]}`, `{"l":["a"],"m":{}}`})
	hand[struct {
		S string             `json:"s"`
		V int                `json:"v"`
		O struct{ P string } `json:"o"`
	}](`{"type":"object","properties":{"s":{"enum":["auto",1,true]},"v":{"enum":["7",5]},"o":{"type":["object","string"],"properties":{"P":{"enum":["a",1]}}}}}`)(t,
		trial{`{"s":1,"v":"7","o":"{\"P\":1}"}`, `{"s":"1","v":7,"o":{"P":"1"}}`},
		trial{`{"s":"auto","v":5,"o":{"P":1}}`, `{"s":"auto","v":5,"o":{"P":"1"}}`},
		trial{`{"s":2,"v":7}`, `! s must be one of "auto", 1, true, got 2; v must be one of "7", 5, got 7`},
		trial{`{"o":"{\"P\":2}"}`, `! o.P must be one of "a", 1, got 2`})
}

// Values of an enum come once, and one that is not split as its author meant is reported.
func TestEnumsAreReported(t *testing.T) {
	if got := string(SchemaOf[struct {
		A string `enum:"GET,POST,GET"`
	}]()); !strings.Contains(got, `"enum":["GET","POST"]`) {
		t.Error(got)
	}
	for schema, want := range map[string]string{
		`{"type":"string","enum":["a","b","a"]}`:                      "enum has a value twice: some providers refuse that",
		`{"type":"array","items":{"type":"string","enum":["a","a"]}}`: "enum has a value twice: some providers refuse that",
		`{"type":"string","enum":["a|b"]}`:                            `enum has one value, "a|b": values are separated by commas`,
		`{"type":"string","enum":["a b"]}`:                            `enum has one value, "a b": values are separated by commas`,
		`{"type":"string","enum":["a","b c"]}`:                        "",
		`{"type":"string","enum":["a"]}`:                              "",
	} {
		s := &Server{}
		byHand[any](s, `{"type":"object","properties":{"v":`+schema+`}}`)
		if got := reports(t, s); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: reported %q", schema, got)
		}
	}
	s := &Server{}
	toolOf[struct {
		A string `enum:"low|high"`
	}](s)
	if got := reports(t, s); !strings.Contains(got, `In.A: enum has one value, "low|high": values are separated by commas`) {
		t.Errorf("reported %q", got)
	}
}

// A field that encoding/json cannot set is reported beside a schema by hand too.
func TestUnsettableFieldBesideASchemaByHand(t *testing.T) {
	s := &Server{}
	byHand[struct {
		A struct{ *unsettable }
	}](s, openSchema)
	if got := reports(t, s); !strings.Contains(got, "In.A.unsettable.N is left out, because encoding/json cannot set it") {
		t.Errorf("reported %q", got)
	}
}

type unsettable struct{ N int }
