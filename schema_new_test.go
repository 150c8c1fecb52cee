package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// ---- schemas, arguments and results, as they are seen from outside ----

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

// callX lists the only tool of s, which is called x, and calls it with each of
// these arguments.
func callX(t *testing.T, s *Server, version string, args ...string) (tool struct{ InputSchema, OutputSchema json.RawMessage }, results []toolResult) {
	t.Helper()
	lines := fmt.Sprintf(`{"jsonrpc":"2.0","id":1000,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, version) +
		"\n" + `{"jsonrpc":"2.0","id":1001,"method":"tools/list"}` + "\n"
	for i, a := range args {
		lines += call(strconv.Itoa(i), "x", a) + "\n"
	}
	results = make([]toolResult, len(args))
	for _, line := range feed(t, s, strings.NewReader(lines)) {
		var m struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case m.ID == 1001:
			var list struct {
				Tools []struct{ InputSchema, OutputSchema json.RawMessage }
			}
			if json.Unmarshal(m.Result, &list); len(list.Tools) == 1 {
				tool = list.Tools[0]
			}
		case m.ID < len(args) && m.Error != nil:
			results[m.ID].failed = m.Error.Message
		case m.ID < len(args):
			json.Unmarshal(m.Result, &results[m.ID])
		}
	}
	return tool, results
}

// byHand adds a tool x with a schema written by hand that returns its arguments
// as encoding/json sees them.
func byHand[In any](s *Server, schema string) {
	AddTool(s, Tool{Name: "x", InputSchema: json.RawMessage(schema)}, func(_ context.Context, in In) (string, error) {
		raw, err := json.Marshal(in)
		return string(raw), err
	})
}

// A trial is arguments and the text that comes of them.
type trial struct{ args, want string }

// try calls the tool x of s, and compares the texts.
func try(t *testing.T, s *Server, trials ...trial) {
	t.Helper()
	var args []string
	for _, tr := range trials {
		args = append(args, tr.args)
	}
	_, results := callX(t, s, legacyPV, args...)
	for i, tr := range trials {
		want := strings.Replace(tr.want, "! ", "! Invalid arguments: ", 1)
		if got := results[i].text(); got != want {
			t.Errorf("%.200s: got %s, want %s", tr.args, got, want)
		}
	}
}

const invalidArgs = "! Invalid arguments: "

func TestOneRuleWrapsStructuredOutput(t *testing.T) { // F02
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

type embeddedBase struct {
	ID   string `json:"id"`
	Name string `json:"name"`
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

func TestTagsThatCannotHoldPanic(t *testing.T) { // F05, F27
	in := func(f func(*Server)) func() { return func() { f(&Server{}) } }
	twice := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"a"`}, {Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"a,omitempty"`}})
	for _, tt := range []struct {
		want string
		f    func()
	}{
		{"In.A: enum: ", in(toolOf[struct {
			A []int `enum:"a,b"`
		}])},
		{"In.A: enum: ", in(toolOf[struct {
			A int `enum:"1, 2"`
		}])},
		{"In.A: enum: ", in(toolOf[struct {
			A string `enum:"a, b"`
		}])},
		{"In.A: minLength is above maxLength", in(toolOf[struct {
			A string `minLength:"3" maxLength:"2"`
		}])},
		{"In.A: enum: a stands there twice", in(toolOf[struct {
			A string `enum:"a,b,a"`
		}])},
		{"In.A: enum must be in the range of int8, got 300", in(toolOf[struct {
			A int8 `enum:"300"`
		}])},
		{"In.A: enum must be in the range of uint8", in(toolOf[struct {
			A []uint16 // fine
			B []uint8  `json:",omitempty"` // bytes
			C struct {
				A uint8 `enum:"1,256"`
			}
		}])},
		{"In.A: enum: 1.0 must be written as an integer", in(toolOf[struct {
			A int `enum:"1.0"`
		}])},
		{"In.A: enum must be at most 3", in(toolOf[struct {
			A int `enum:"2,4" maximum:"3"`
		}])},
		{"In.A: enum must have at most 2 characters", in(toolOf[struct {
			A string `enum:"a,bcd" maxLength:"2"`
		}])},
		{"In.A: format is for strings", in(toolOf[struct {
			A time.Time `format:"date"`
		}])},
		{"In.A: format is for strings", in(toolOf[struct {
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
		{`In.A: the name a is also that of In.B`, func() { mustDerive(twice, "In", reading) }},
		{`Out.A: the name a is also that of Out.B`, func() { derive(twice, "Out", writing|sent) }},
		{"Out.A: minLength is above maxLength", func() {
			out(struct {
				A string `minLength:"3" maxLength:"2"`
			}{}, nil)(&Server{})
		}},
		{"SchemaOf.A: enum: a stands there twice", func() {
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

func TestAnotherLibrarysTagPanics(t *testing.T) { // F45
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

func TestNullIsNoElement(t *testing.T) { // F08
	type in struct {
		L []*int          `json:"l,omitempty"`
		M map[string]*int `json:"m,omitempty"`
	}
	s := &Server{}
	toolOf[in](s)
	try(t, s, trial{`{"l":[1,null]}`, "! l[1] must be an integer, got null"}, trial{`{"m":{"a":null}}`, "! m.a must be an integer, got null"},
		trial{`{"l":null,"m":null}`, "{}"}, trial{`{"l":[1],"m":{"a":2}}`, `{"l":[1],"m":{"a":2}}`})
	one := 1
	s = &Server{}
	out(in{L: []*int{nil, &one, nil}, M: map[string]*int{"a": nil, "b": &one}}, nil)(s)
	try(t, s, trial{"{}", `{"l":[1],"m":{"b":1}}`})
}

func TestFieldsOfAnEmbeddedPointerAreOptional(t *testing.T) { // F12
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

func TestTextIsAStringInSchemaAndOutput(t *testing.T) { // F13
	type both struct {
		R onlyReads
		L onlyReads2
		P byPointer
		Q *byPointer
		C color
		S []byPointer
		M map[string]*byPointer
	}
	s := &Server{}
	AddTool(s, Tool{Name: "x", OutputSchema: SchemaOf[both]()}, func(context.Context, none) (both, error) {
		return both{R: 3, L: onlyReads2{"a"}, P: byPointer{4}, Q: &byPointer{5}, S: []byPointer{{6}}, M: map[string]*byPointer{"k": {7}}}, nil
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

func TestSmallIntegersSayTheirRange(t *testing.T) { // F26
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

func TestSchemaByHandTakesAnything(t *testing.T) { // F09
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

func TestSchemaByHandIsHeldAtItsRoot(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":"string"}},"required":["n"],"additionalProperties":false}`
	type in struct {
		N int8     `json:"n" maximum:"9"`
		S string   `json:"s" enum:"a,b"`
		L []string `json:"l"`
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
	try(t, s, trial{`{"n":300,"s":"c"}`, `! n must be in the range of int8, got 300; s must be one of a, b, got "c"`}, trial{`{"n":10}`, "! n must be at most 9, got 10"}, trial{`{"n":1,"s":2}`, "! s must be a string, got 2"})
	s = &Server{}
	byHand[in](s, `{"type":"object","required":["l"],"additionalProperties":false,"patternProperties":{"^x":{}},"properties":{"l":{}}}`)
	try(t, s, trial{`{"l":[],"x1":1}`, `{"n":0,"s":"","l":[]}`}, trial{`{"l":null}`, `{"n":0,"s":"","l":null}`})
	wantPanic(t, "required must be a list of names", func() { byHand[none](&Server{}, `{"type":"object","required":"n"}`) })
}

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

func TestSchemaIsBounded(t *testing.T) { // F19
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

func TestLongChainsAreWritten(t *testing.T) { // F20
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

func TestZeroIsAnInteger(t *testing.T) { // F21
	s := &Server{}
	toolOf[struct{ N int8 }](s)
	for _, zero := range []string{"0e-1", "0.0e-5", "-0.0e-7", "0.00", "0E+9", "-0", `"0e-1"`, "0e-99999999999999999999"} {
		try(t, s, trial{`{"N":` + zero + `}`, `{"N":0}`})
	}
	try(t, s, trial{`{"N":1e-1}`, "! N must be an integer, got 1e-1"}, trial{`{"N":10e-1}`, `{"N":1}`}, trial{`{"N":-1200.0e-2}`, `{"N":-12}`}, trial{`{"N":1e99999999999999999999}`, "! N must be in the range of int8, got 1e99999999999999999999"})
}

func TestNoTextIsCutInsideOfACharacter(t *testing.T) { // F34
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

func TestDynamicValuesAreCheap(t *testing.T) { // F36
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
	line := []byte(callProc(1, "list", "{}"))
	if n := testing.AllocsPerRun(20, func() { l.play(line, 1) }); n > 100 {
		t.Errorf("%v allocations", n)
	}
}

func TestHostsOwnArgumentIsIgnored(t *testing.T) { // F40
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
	}
	s := &Server{}
	toolOf[struct {
		W bool            `json:"wait_for_previous"`
		D struct{ N int } `json:"d,omitzero"`
	}](s)
	try(t, s, trial{`{"wait_for_previous":true}`, `{"wait_for_previous":true}`}, trial{`{"wait_for_previous":5}`, "! wait_for_previous must be a boolean, got 5"},
		trial{`{"wait_for_previous":true,"d":{"N":1,"wait_for_previous":true}}`, "! d.wait_for_previous is unknown (there is N)"})
}

func TestListsAndObjectsMayComeAsStrings(t *testing.T) { // F43
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

func TestMapOfAnyIsFreeForm(t *testing.T) { // F46
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
		trial{`{"f":5}`, "! f must be an object, got 5"}, trial{`{"g":{}}`, "! g is unknown (there is f, l, m); f is required"}, trial{`{"f":{"a":1e400}}`, "! f is not valid: json: cannot unmarshal number 1e400 into Go value of type float64"})
	s = &Server{}
	toolOf[map[string]any](s)
	if tool, _ = callX(t, s, legacyPV); string(tool.InputSchema) != `{"type":"object"}` {
		t.Errorf("got %s", tool.InputSchema)
	}
	try(t, s, trial{`{"a":null}`, `{"a":null}`}, trial{`{}`, `{}`})
	for want, f := range map[string]func(*Server){
		`In.A: interface {} cannot be described: write a type, or map[string]any`:             toolOf[struct{ A any }],
		`In.A: json.RawMessage has a JSON form of its own, which cannot be described: write `: toolOf[struct{ A json.RawMessage }],
		`In.A: [2]int cannot be described: write a slice, []int`:                              toolOf[struct{ A [2]int }],
		`In.A: map[int]bool cannot be described: write a map with string keys`:                toolOf[struct{ A map[int]bool }],
		`In.A[]: fmt.Stringer cannot be described`:                                            toolOf[struct{ A map[string]fmt.Stringer }],
	} {
		wantPanic(t, want, func() { f(&Server{}) })
	}
}

func TestOutputSchemaIsDerived(t *testing.T) { // F47, F25
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
		{"free map", out(map[string]any(nil), nil), `{"type":"object"}`, "{}"},
		{"given", func(s *Server) {
			AddTool(s, given, func(context.Context, none) (reply, error) { return reply{}, nil })
		}, `{"type":"object"}`, `{"n":0,"l":[]}`},
		{"not to be described", out(struct{ A any }{}, nil), "", `{"A":null}`},
		{"list", out([]reply{}, nil), "", "[]"},
		{"pointer", out(&reply{}, nil), "", `{"n":0,"l":[]}`},
		{"nil pointer", out((*reply)(nil), nil), "", "0 blocks"},
		{"nothing", out(none{}, nil), "", "0 blocks"},
		{"text", out("a", nil), "", "a"},
		{"nil where something is promised", func(s *Server) {
			AddTool(s, given, func(context.Context, none) (*reply, error) { return nil, nil })
		}, `{"type":"object"}`, "!! Internal error"},
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

func TestBytesSayBase64(t *testing.T) { // F48
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

func TestManyNamesAreToldInOrder(t *testing.T) {
	s := &Server{}
	toolOf[struct {
		Zeta  int `json:"zeta"`
		Alpha int `json:"alpha"`
		Nm    int `json:"nm,omitempty"`
	}](s)
	try(t, s, trial{`{"nmae":1,"zeta":1,"alpha":1}`, "! nmae is unknown (there is zeta, alpha, nm)"})
}

// What user methods return is one line of valid UTF-8 in the end.
func TestOutputIsOneValidLine(t *testing.T) {
	for _, v := range []any{json.RawMessage("{\"a\":\n\"\xff\u2028\u2029\"}"), map[string]any{"k": valJSON{1}}, color(3), []string{"\xc3(", "\u2028"}, struct{ E error }{}} {
		got, err := marshal(v)
		if err != nil || !utf8.Valid(got) || !json.Valid(got) || bytes.ContainsAny(got, "\n\r\u2028\u2029") {
			t.Errorf("%T: %q %v", v, got, err)
		}
	}
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

// ---- what we emit we accept, and what we send fits what we emitted ----

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
			if format, _ := s["format"].(string); !wellFormed(format, v) {
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
		return reflect.TypeFor[int8](), tags
	case 7:
		return reflect.TypeFor[[]byte](), ""
	case 8:
		return reflect.TypeFor[time.Time](), ""
	case 9:
		t, _ = c.typ(depth-1, tagged)
		tag(`minLength:"1" maxLength:"3"`)
		if t = reflect.SliceOf(t); t == reflect.TypeFor[[]byte]() {
			tags = ""
		}
		return t, tags
	case 10:
		t, _ = c.typ(depth-1, tagged)
		return reflect.MapOf(reflect.TypeFor[string](), t), ""
	case 11:
		t, tags = c.typ(depth-1, tagged)
		return reflect.PointerTo(t), tags
	case 12:
		return reflect.TypeFor[map[string]any](), ""
	}
	return c.structType(depth-1, tagged), ""
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
	}
	return []any{nil, true, "true", 5.0, "5", -1.0, 0.5, 300.0, "", "A", "AA==", "x y", []any{}, "[]", []any{nil}, map[string]any{}, "{}", map[string]any{"k": nil}, 1e300}[c.IntN(19)]
}

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
		var schema, val any
		if json.Unmarshal(rendered, &schema); err != nil || json.Unmarshal(raw, &val) != nil {
			t.Fatalf("%v: %s %v", typ, raw, err)
		}
		if why := misfit(schema, val, false); why != "" {
			t.Errorf("seed %d: %s\ndoes not fit %s\n%s", seed, raw, rendered, why)
		}
	}
}
