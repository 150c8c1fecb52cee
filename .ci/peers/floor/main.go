// Floor responds only to the driver of this comparison. It searches lines of a known form for
// the members that it needs, and checks nothing. Its cost is a lower bound for any server.
package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"

	"example.com/mcp/peers/tools"
)

const (
	initialize = `"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"floor","version":"1.0.0"}`
	schema     = `","description":"Returns its text.","inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"what to say"}},"required":["text"]}}`
)

var (
	in       = bufio.NewReaderSize(os.Stdin, 64<<10)
	out      = bufio.NewWriterSize(os.Stdout, 64<<10)
	mu       sync.Mutex // guards out
	sleepers sync.WaitGroup
	list     = []byte(`"tools":[{"name":"echo` + schema)
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	for i := range tools.More() {
		list = append(append(append(list, `,{"name":"`...), tools.Name(i)...), schema...)
	}
	list = append(list, ']')
	for line := next(); line != nil; line = next() {
		mu.Lock()
		serve(ctx, line)
		// The responses to all requests of one read are sent in one write.
		if rest, _ := in.Peek(in.Buffered()); bytes.IndexByte(rest, '\n') < 0 {
			out.Flush()
		}
		mu.Unlock()
	}
	cancel()
	sleepers.Wait()
	out.Flush()
}

// next returns the next line, or nil at the end of the input.
func next() []byte {
	line, err := in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		var rest []byte
		line = bytes.Clone(line)
		rest, err = in.ReadBytes('\n')
		line = append(line, rest...)
	}
	if err != nil {
		return nil
	}
	return line
}

func serve(ctx context.Context, line []byte) {
	id := after(line, `"id":`, ',')
	method := after(line, `"method":"`, '"')
	claims := bytes.Index(line[:min(len(line), 400)], []byte(`"io.modelcontextprotocol/clientCapabilities"`))
	modern := claims > 0
	if modern {
		line = line[claims:]
	}
	switch string(method) {
	case "initialize":
		answer(id, modern, initialize)
	case "tools/list":
		answer(id, modern, list)
	case "tools/call":
		switch string(after(line, `"name":"`, '"')) {
		case "echo":
			text := line[bytes.Index(line, []byte(`"text":"`))+len(`"text":`) : bytes.LastIndexByte(line, '"')+1]
			answer(id, modern, `"content":[{"type":"text","text":`, text, `}]`)
		case "add":
			a, _ := strconv.Atoi(string(after(line, `"a":`, ',')))
			b, _ := strconv.Atoi(string(after(line, `"b":`, '}')))
			sum := strconv.Itoa(a + b)
			answer(id, modern, `"content":[{"type":"text","text":"{\"sum\":`, sum, `}"}],"structuredContent":{"sum":`, sum, `}`)
		case "sleep":
			id := bytes.Clone(id)
			ms, _ := strconv.Atoi(string(after(line, `"ms":`, '}')))
			sleepers.Go(func() {
				tools.Sleep{MS: ms}.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				answer(id, modern, `"content":[{"type":"text","text":"awake"}]`)
				if ctx.Err() == nil {
					out.Flush()
				}
			})
		}
	}
}

// after returns the text between a key and the end of its value.
func after(line []byte, key string, end byte) []byte {
	i := bytes.Index(line, []byte(key))
	if i < 0 {
		return nil
	}
	value := line[i+len(key):]
	return value[:max(bytes.IndexByte(value, end), 0)]
}

func answer(id []byte, modern bool, result ...any) {
	out.WriteString(`{"jsonrpc":"2.0","id":`)
	out.Write(id)
	out.WriteString(`,"result":{`)
	if modern {
		out.WriteString(`"resultType":"complete",`)
	}
	for _, part := range result {
		switch part := part.(type) {
		case string:
			out.WriteString(part)
		case []byte:
			out.Write(part)
		}
	}
	out.WriteString("}}\n")
}
