// SPDX-License-Identifier: MIT
// SPDX-FileCopyrightText: 2026 The mcp authors

package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// This file has the tests of tasks. The names TSK-01 to TSK-20 are those of the requirements of the extension.

// ---- tasks ----

const taskCaps = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// sureAsk is the question of Confirm(ctx, "Sure?"), and sureYes an answer.
const (
	sureAsk = `{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean",` +
		`"description":"tick to go ahead","default":false}}}}`
	sureYes = `{"action":"accept","content":{"confirm":true}}`
)

// tasker has a tool that may become a task after a second, and does what the test says.
func tasker(do func(ctx context.Context) (string, error)) *Server {
	s := &Server{}
	AddTool(s, Tool{Name: "do", TaskAfter: time.Second}, func(ctx context.Context, _ none) (string, error) { return do(ctx) })
	return s
}

// inTask returns a tool that becomes a task and then returns what f returns.
func inTask(f func(ctx context.Context) (string, error)) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		time.Sleep(2 * time.Second)
		return f(ctx)
	}
}

// state is a state of the task of a call that was sent at the beginning of the bubble, with the members after ttlMs.
func state(status, updated string, members ...string) string {
	return `"taskId":"$TASK","status":"` + status + `","createdAt":"2000-01-01T00:00:01Z","lastUpdatedAt":"2000-01-01T00:00:` + updated +
		`Z","ttlMs":null,"pollIntervalMs":1000` + strings.Join(append([]string{""}, members...), ",")
}

// taskResponse is the response to a call that has become a task.
func taskResponse(id, state string) string {
	return id + ` {"resultType":"task",` + state + "," + serverMeta + "}"
}

// outcomeOf is the outcome of a task, as a member.
func outcomeOf(response string) string {
	var m struct{ Result, Error json.RawMessage }
	json.Unmarshal([]byte(full("1"+response)), &m)
	if m.Error != nil {
		return `"error":` + string(m.Error)
	}
	return `"result":` + string(m.Result)
}

// What the client sees of a task: TSK-03 to TSK-07 and TSK-10 to TSK-13, and the ids that are used again.
func TestTask(t *testing.T) {
	working := taskResponse("1", state("working", "01"))
	const get = "\n> 2+ tasks/get {\"taskId\":\"$TASK\"}\n< 2+ "
	ask := func(ctx context.Context) (string, error) { return outcome("yes", Confirm(ctx, "Sure?")) }
	question := func(key string) string {
		return `"` + key + `":{"method":"elicitation/create","params":` + sureAsk + `}`
	}
	for name, test := range map[string]struct {
		do         func(ctx context.Context) (string, error)
		transcript string
	}{
		"result": {inTask(func(context.Context) (string, error) { return "done", nil }), `
			> 1+ call do
			~ 1s
			< ` + working + `
			# TSK-12
			> cancel 1` + get + `{` + state("working", "01") + `}
			~ 1001ms` + get + `{` + state("completed", "02", outcomeOf("+ said done")) + `}` + get +
			`{` + state("completed", "02", outcomeOf("+ said done")) + `}
			# TSK-11
			> 3+ tasks/cancel {"taskId":"$TASK"}
			< 3+ {}` + get + `{` + state("completed", "02", outcomeOf("+ said done")) + `}`},
		"error": {inTask(func(context.Context) (string, error) { return "", errors.New("oh") }), `
			> 1+ call do
			~ 1s
			< ` + working + `
			~ 1001ms` + get + `{` + state("completed", "02", outcomeOf("+ failed oh")) + `}`},
		"panic": {inTask(func(context.Context) (string, error) { panic("oh") }), `
			> 1+ call do
			~ 1s
			< ` + working + `
			~ 1001ms` + get + `{` + state("completed", "02", outcomeOf("+ failed Internal error in tool do")) + `}`},
		"protocol error": {inTask(func(context.Context) (string, error) { return "", &Error{Code: 7, Message: "oh"} }), `
			> 1+ call do
			~ 1s
			< ` + working + `
			~ 1001ms` + get + `{` + state("failed", "02", outcomeOf("! 7 oh")) + `}`},
		"status message": {func(ctx context.Context) (string, error) {
			Progress(ctx, 1, 0, "begun")
			time.Sleep(2 * time.Second)
			Progress(ctx, 2, 0, "half")
			Progress(ctx, 3, 0, "")
			slog.New((&Server{}).LogHandler("")).ErrorContext(ctx, "dropped")
			time.Sleep(2 * time.Second)
			return "done", nil
		}, `
			> 1+ tools/call {"name":"do","_meta":{"progressToken":7,"io.modelcontextprotocol/logLevel":"debug"}}
			< notifications/progress {"progressToken":7,"progress":1,"message":"begun"}
			~ 1003ms
			< ` + taskResponse("1", state("working", "01", `"statusMessage":"begun"`)) + `
			~ 2s` + get + `{` + state("working", "02", `"statusMessage":"half"`) + `}`},
		"cancel": {inTask(ask), `
			> 1+ call do
			~ 1s
			< ` + working + `
			~ 1001ms` + get + `{` + state("input_required", "02", `"inputRequests":{`+question("1")+`}`) + `}
			> 3+ tasks/cancel {"taskId":"$TASK"}
			< 3+ {}` + get + `{` + state("cancelled", "02") + `}`},
		"questions": {inTask(func(ctx context.Context) (string, error) {
			first, second := Confirm(ctx, "Sure?"), Confirm(ctx, "Sure?")
			return fmt.Sprint(first, ", ", second), nil
		}), `
			> 1+ call do
			~ 1s
			< ` + working + `
			~ 1001ms` + get + `{` + state("input_required", "02", `"inputRequests":{`+question("1")+`}`) + `}
			> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"0":{},"2":{"action":"accept"},"1":` + sureYes + `}}
			< 3+ {}` + get + `{` + state("input_required", "02", `"inputRequests":{`+question("2")+`}`) + `}
			> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"1":` + sureYes + `}}
			< 3+ {}` + get + `{` + state("input_required", "02", `"inputRequests":{`+question("2")+`}`) + `}
			> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"2":{"action":"decline"}}}
			< 3+ {}` + get + `{` + state("completed", "02", outcomeOf("+ said <nil>, the user declined")) + `}`},
		"the id is used again": {inTask(func(context.Context) (string, error) { return "done", nil }), `
			> 1+ call do
			~ 1s
			< ` + working + `
			> 1+ call none
			< 1! -32602 Unknown tool: none (there is do)
			~ 1001ms` + get + `{` + state("completed", "02", outcomeOf("+ said done")) + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, tasker(test.do), "", taskCaps, func(c *client) { c.play(test.transcript) })
		})
	}
}

// Calls that do not become tasks, and requests for tasks that do not exist or are not supported: TSK-01, TSK-02, TSK-07,
// TSK-08, TSK-14, TSK-16, TSK-18 and TSK-20.
func TestNoTask(t *testing.T) {
	const missing = `-32021 This request needs the extension io.modelcontextprotocol/tasks, which this client does not declare ` +
		`{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	done := inTask(func(context.Context) (string, error) { return "done", nil })
	inBubbleWith(t, tasker(done), legacyPV, taskCaps, func(c *client) {
		if got := c.ask("1 initialize 2025-11-25 "+taskCaps, "2+ server/discover"); strings.Contains(got[0], keyTasks) || !strings.Contains(got[1], `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
			t.Errorf("declared in %q", got)
		}
		c.play(`
			> 3 tools/call {"name":"do","task":{"ttl":1}}
			~ 2s
			< 3 said done
			> 4 tasks/get {"taskId":"t"}
			< 4! -32601 Method not found: tasks/get
			> 5+ tasks/get {"taskId":"t"}
			< 5! -32602 Invalid params: there is no such task, or its result was read and is not kept any more
			> 6+ tasks/update {"taskId":5,"inputResponses":{}}
			< 6! -32602 Invalid params: taskId is required
			> 7+ tasks/cancel
			< 7! -32602 Invalid params: taskId is required
			> 8+ subscriptions/listen {"notifications":{"taskIds":["t"]}}
			< notifications/subscriptions/acknowledged {"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":8}}
			> cancel 8`)
		c.caps = `{"extensions":{"io.modelcontextprotocol/tasks":true}}`
		c.play(`
			> 1+ call do
			~ 2s
			< 1+ said done
			> 2+ tasks/get {"taskId":"t"}
			< 2! ` + missing + `
			> 2+ tasks/update {"taskId":"t"}
			< 2! ` + missing + `
			> 2+ tasks/cancel {"taskId":"t"}
			< 2! ` + missing + `
			> 2+ subscriptions/listen {"notifications":{"taskIds":["t"]}}
			< 2! ` + missing)
	})
	inBubbleWith(t, demo(), "", taskCaps, func(c *client) {
		c.play("> 1+ tasks/get {\"taskId\":\"t\"}", "< 1! -32601 Method not found: tasks/get")
		if got := c.ask("2+ server/discover"); strings.Contains(got[0], keyTasks) {
			t.Errorf("declared in %q", got)
		}
	})
	inBubbleWith(t, tasker(func(ctx context.Context) (string, error) { // a question that is sent in a result
		err := Confirm(ctx, "Sure?")
		time.Sleep(3 * time.Second)
		return outcome("yes", err)
	}), "", taskCaps, func(c *client) {
		c.play(`
			> 1+ call do
			~ 3001ms
			< 1? {"$k":{"method":"elicitation/create","params":` + sureAsk + `}}
			> 2+ tools/call {"name":"do","inputResponses":{"$k":` + sureYes + `},"requestState":"$STATE"}
			~ 1s
			< ` + taskResponse("2", strings.ReplaceAll(state("working", "01"), "0:01Z", "0:04Z")) + `
			~ 2001ms
			> 3+ tasks/get {"taskId":"$TASK"}
			< 3+ {` + strings.ReplaceAll(state("completed", "06", outcomeOf("+ said yes")), "0:01Z", "0:04Z") + `}`)
	})
}

// becomeTask calls the tool do with this id, and waits until the call has become a task.
func (c *client) becomeTask(id string) (task string) {
	c.t.Helper()
	c.send(id + "+ call do")
	time.Sleep(time.Second + progressGap)
	for _, line := range c.recv() {
		if made := taskMade.FindStringSubmatch(line); made != nil {
			return made[1]
		}
	}
	return ""
}

// statusOf returns the status of a task, or "" if there is no such task.
func (c *client) statusOf(task string) string {
	c.t.Helper()
	got := c.ask(`"status"+ tasks/get {"taskId":"` + task + `"}`)
	var m struct{ Result struct{ Status string } }
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &m) != nil {
		c.t.Fatalf("got %q", got)
	}
	return m.Result.Status
}

// A task has an id that cannot be guessed (TSK-15).
func TestTaskIDs(t *testing.T) {
	inBubbleWith(t, tasker(inTask(noText)), "", taskCaps, func(c *client) {
		seen := make(map[string]bool)
		for i := range 50 {
			task := c.becomeTask(strconv.Itoa(i))
			if len(task) != 32 || seen[task] || seen[task[:16]] || seen[task[16:]] {
				t.Fatalf("id %q after %v", task, seen)
			}
			seen[task], seen[task[:16]], seen[task[16:]] = true, true, true
		}
	})
}

// The message of a task is at most 1 KiB, and whole characters.
func TestTaskMessage(t *testing.T) {
	s := tasker(func(ctx context.Context) (string, error) {
		time.Sleep(2 * time.Second)
		Progress(ctx, math.NaN(), 0, "a"+strings.Repeat("é", 1000))
		time.Sleep(time.Second)
		return "", nil
	})
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		c.play("> 1+ call do", "~ 1s", "< "+taskResponse("1", state("working", "01")), "~ 1001ms",
			`> 2+ tasks/get {"taskId":"$TASK"}`, "< 2+ {"+state("working", "02", `"statusMessage":"a`+strings.Repeat("é", 511)+`"`)+"}",
			"~ 1s", // a result has the message too
			`> 2+ tasks/get {"taskId":"$TASK"}`, "< 2+ {"+state("completed", "03", `"statusMessage":"a`+strings.Repeat("é", 511)+`"`, outcomeOf("+ said "))+"}")
	})
}

// Questions of several goroutines are open at the same time, and equal ones differ (TSK-06, TSK-09, TSK-10). One whose
// context ends is withdrawn.
func TestTaskAsksManyQuestions(t *testing.T) {
	var got [4]error
	s := tasker(inTask(func(ctx context.Context) (string, error) {
		var asking sync.WaitGroup
		for i := range got {
			asking.Go(func() {
				ctx := ctx
				if i == 3 {
					late, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), time.Minute, io.ErrNoProgress)
					defer cancel()
					ctx = late
				}
				time.Sleep(time.Duration(i)) // so the questions come in this order
				got[i] = Confirm(ctx, "Sure?")
			})
		}
		asking.Wait()
		return "", nil
	}))
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		c.task = c.becomeTask("1")
		time.Sleep(2 * time.Second)
		open := func(want ...string) {
			t.Helper()
			var questions []string
			for _, key := range want {
				questions = append(questions, `"`+key+`":{"method":"elicitation/create","params":`+sureAsk+`}`)
			}
			if got := c.ask(`2+ tasks/get {"taskId":"$TASK"}`)[0]; !strings.Contains(got, `"input_required"`) || strings.Count(got, "Sure?") != len(want) {
				t.Errorf("got %s", got)
			} else {
				for _, question := range questions {
					if !strings.Contains(got, question) {
						t.Errorf("no %s in %s", question, got)
					}
				}
			}
		}
		open("1", "2", "3", "4")
		c.play(`> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"2":`+sureYes+`,"1":{"action":"decline"},"x":`+sureYes+`}}`, "< 3+ {}")
		open("3", "4")
		c.play(`> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"3":5}}`, "< 3! -32602 Invalid params: inputResponses.3 must be an object",
			`> 3+ tasks/update {"taskId":"$TASK","inputResponses":[]}`, "< 3! -32602 Invalid params: inputResponses must be an object",
			`> 3+ tasks/update {"taskId":"$TASK"}`, "< 3+ {}")
		time.Sleep(time.Minute) // the context of the fourth ends
		open("3")
		c.play(`> 3+ tasks/update {"taskId":"$TASK","inputResponses":{"3":{"action":"cancel"},"4":`+sureYes+`}}`, "< 3+ {}")
		if status := c.statusOf(c.task); status != "completed" {
			t.Error(status)
		}
	})
	if want := [4]error{ErrDeclined, nil, ErrDismissed, io.ErrNoProgress}; got != want {
		t.Errorf("got %v", got)
	}
}

// An answer counts once, and from then on the question is not open, even if the handler has not received it yet.
func TestTaskAnswerCountsOnce(t *testing.T) {
	s := tasker(inTask(func(ctx context.Context) (string, error) { return outcome("yes", Confirm(ctx, "Sure?")) }))
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		c.task = c.becomeTask("1")
		time.Sleep(2 * time.Second)
		const update = `tasks/update {"taskId":"$TASK","inputResponses":{"1":`
		got := c.ask("2+ " + update + sureYes + "}}\n3+ " + update + `{"action":"decline"}}}` + "\n" + `4+ tasks/get {"taskId":"$TASK"}`)
		if len(got) != 3 || strings.Contains(got[2], "Sure?") {
			t.Errorf("got %q", got)
		}
		if got := c.ask(`5+ tasks/get {"taskId":"$TASK"}`); len(got) != 1 || !strings.Contains(got[0], outcomeOf("+ said yes")) {
			t.Errorf("got %q", got)
		}
	})
}

// A question with a context of its own ends with the task.
func TestTaskQuestionEndsWithTheTask(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"tasks/cancel": func(c *client) { c.play(`> 2+ tasks/cancel {"taskId":"$TASK"}`, "< 2+ {}") },
		"return":       func(c *client) { time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			var got error
			s := tasker(inTask(func(ctx context.Context) (string, error) {
				asking, asked := make(chan error, 1), time.Now()
				go func() { asking <- Confirm(context.WithoutCancel(ctx), "Sure?") }()
				if name == "tasks/cancel" {
					got = <-asking
				} else { // the handler returns while the question is open
					time.Sleep(time.Minute)
					go func() { got = <-asking }()
				}
				if took := time.Since(asked); took > time.Minute {
					t.Errorf("asked for %v", took)
				}
				return "", nil
			}))
			inBubbleWith(t, s, "", taskCaps, func(c *client) {
				c.task = c.becomeTask("1")
				time.Sleep(2 * time.Second)
				end(c)
				synctest.Wait()
				if !errors.Is(got, context.Canceled) {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}

// No result is lost unread, and memory is bounded nevertheless (TSK-17).
func TestTaskResultsAreKept(t *testing.T) {
	for name, test := range map[string]struct {
		size, atOnce int
		becomeTasks  int // of further calls, if none is read
	}{
		"number":           {0, 10, maxTasks - 10},
		"more than number": {0, maxTasks + 5, 0},
		"bytes":            {1 << 20, 10, 6},
		"one that is long": {20 << 20, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if raceBuild() && test.size > 0 {
				t.Skip("long texts take long with the race detector")
			}
			s := tasker(inTask(func(context.Context) (string, error) { return strings.Repeat("x", test.size), nil }))
			inBubbleWith(t, s, "", taskCaps, func(c *client) {
				for i := range test.atOnce {
					c.send(strconv.Itoa(i) + "+ call do")
				}
				time.Sleep(3 * time.Second)
				var unread []string
				for _, line := range c.recv() {
					unread = append(unread, taskMade.FindStringSubmatch(line)[1])
				}
				for i := range test.becomeTasks + 1 {
					task := c.becomeTask("1")
					time.Sleep(2 * time.Second)
					if (task == "") != (i == test.becomeTasks) {
						t.Fatalf("call %d: task %q", i, task)
					}
					if unread = append(unread, task); task == "" {
						c.want("1+ said " + strings.Repeat("x", test.size))
					}
				}
				for _, task := range unread[:len(unread)-1] {
					if status := c.statusOf(task); status != "completed" {
						t.Fatalf("a result was lost: %q", status)
					}
				}
				last := unread[len(unread)-2]
				if status := c.statusOf(last); status != "completed" {
					t.Errorf("the result that was read last is %q", status)
				}
				if task := c.becomeTask("1"); task == "" {
					t.Error("results that were read keep a call from becoming a task")
				}
			})
		})
	}
	// What was read, and what was cancelled, is dropped, the oldest first.
	s := tasker(inTask(func(ctx context.Context) (string, error) {
		if string(RequestFrom(ctx).ID) == "0" {
			<-ctx.Done()
		}
		return "", nil
	}))
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		var all []string
		for i := range maxTasks + 50 {
			id := strconv.Itoa(i % 2)
			all = append(all, c.becomeTask(id))
			time.Sleep(2 * time.Second)
			if c.task = all[i]; id == "0" {
				c.play(`> 2+ tasks/cancel {"taskId":"$TASK"}`, "< 2+ {}")
			} else if first, second := c.statusOf(c.task), c.statusOf(c.task); first != "completed" || second != "completed" {
				t.Fatal(first, second)
			}
		}
		var kept []int
		for i, task := range all {
			if c.statusOf(task) != "" {
				kept = append(kept, i)
			}
		}
		if kept[0] != 51 || len(kept) != maxTasks-1 { // so that there is room for another one
			t.Errorf("kept %v", kept)
		}
	})
}

// A cancel of a task that has ended says that its result is not wanted, also if it was not read.
func TestCancelOfATaskThatWasNotRead(t *testing.T) {
	inBubbleWith(t, tasker(inTask(func(context.Context) (string, error) { return "", nil })), "", taskCaps, func(c *client) {
		for i := range maxTasks + 50 {
			if c.task = c.becomeTask("1"); c.task == "" {
				t.Fatalf("call %d did not become a task", i)
			}
			time.Sleep(2 * time.Second)
			c.play(`> 2+ tasks/cancel {"taskId":"$TASK"}`, "< 2+ {}")
		}
		if status := c.statusOf(c.task); status != "completed" {
			t.Error(status)
		}
	})
}

// Members that belong to other requests are ignored, and a null is treated as absent.
func TestForeignMembersOfTaskRequests(t *testing.T) {
	inBubbleWith(t, tasker(inTask(func(context.Context) (string, error) { return "", nil })), "", taskCaps, func(c *client) {
		c.task = c.becomeTask("1")
		c.play(`
			> 2+ tasks/update {"taskId":"$TASK","requestState":"x","inputResponses":{}}
			< 2+ {}
			> 3+ tasks/cancel {"taskId":"$TASK","requestState":"x","inputResponses":5}
			< 3+ {}`)
		if status := c.statusOf(c.task); status != "cancelled" {
			t.Error(status)
		}
		c.caps = "{}"
		got := strings.Join(c.ask(`4+ subscriptions/listen {"notifications":{"taskIds":null,"toolsListChanged":true}}`), " ")
		if strings.Contains(got, "-32021") {
			t.Error(got)
		}
	})
}

// A client that never reads a result costs a bounded memory, and gets ordinary results in the end.
func TestTasksThatAreNotReadAreFew(t *testing.T) {
	s := tasker(inTask(func(context.Context) (string, error) { return strings.Repeat("x", 10<<10), nil }))
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		made, ordinary := 0, 0
		for wave := range 200 {
			for i := range 100 {
				c.send(strconv.Itoa(wave*100+i) + "+ call do")
			}
			time.Sleep(3 * time.Second)
			for _, line := range c.recv() {
				if taskMade.MatchString(line) {
					made++
				} else {
					ordinary++
				}
			}
		}
		if made != maxTasks || made+ordinary != 20_000 {
			t.Errorf("%d tasks, %d others", made, ordinary)
		}
		c.mu.Lock()
		c.writes = nil
		c.mu.Unlock()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 16<<20 {
			t.Errorf("%d bytes are kept", kept)
		}
	})
}

// Tasks in every state when the session ends (TSK-19): each handler sees the cause, nothing is written for a task, and
// Serve waits for the handlers.
func TestSessionEndsWithTasks(t *testing.T) {
	const each = 200 // of six states
	for _, end := range []struct {
		name  string
		end   func(c *client)
		cause error
	}{
		{"EOF", func(c *client) { c.in.Close() }, ErrClosed},
		{"ctx", func(c *client) { c.cancel(io.ErrNoProgress) }, io.ErrNoProgress},
		{"closed pipe", func(c *client) {
			c.setFail(func([]byte) (int, error) { return 0, io.ErrClosedPipe })
			c.send("1 ping")
		}, ErrClosed},
	} {
		for _, delay := range []time.Duration{0, 10 * time.Second} {
			t.Run(fmt.Sprint(end.name, " ", delay), func(t *testing.T) {
				var mu sync.Mutex
				causes := make(map[string]int) // of those that ran, or asked, when the session ended
				count := func(what string, err error) {
					mu.Lock()
					causes[fmt.Sprint(what, " ", err)]++
					mu.Unlock()
				}
				s := tasker(func(ctx context.Context) (string, error) {
					n, _ := strconv.Atoi(string(RequestFrom(ctx).ID))
					time.Sleep(2 * time.Second)
					switch n % 6 {
					case 0: // works
						<-ctx.Done()
						count("works", context.Cause(ctx))
					case 1: // asks
						begun := time.Now()
						count("asks", Confirm(ctx, "Sure?"))
						if took := time.Since(begun); took != time.Second {
							t.Errorf("woken after %v", took)
						}
						<-ctx.Done()
					case 2: // is cancelled by the client
						<-ctx.Done()
						count("cancelled", context.Cause(ctx))
						<-time.After(1500 * time.Millisecond) // and returns late
					case 3:
						return "", &Error{Message: "failed"}
					}
					return "completed", nil
				})
				s.CancelDelay, s.WaitDelay = delay, 2*time.Second
				inBubbleWith(t, s, "", taskCaps, func(c *client) {
					for i := range 6 * each {
						c.send(strconv.Itoa(i) + "+ call do")
					}
					time.Sleep(2 * time.Second)
					for _, line := range c.recv() {
						var m struct{ ID int }
						json.Unmarshal([]byte(line), &m)
						if m.ID%6 == 2 {
							c.task = taskMade.FindStringSubmatch(line)[1]
							c.send(`"c"+ tasks/cancel {"taskId":"$TASK"}`)
						}
					}
					time.Sleep(time.Second)
					c.recv()
					begun := time.Now()
					end.end(c)
					if err := <-c.done; err != nil {
						t.Error(err)
					}
					c.done <- nil // for the end of the test
					took := time.Since(begun)
					if want := 500 * time.Millisecond; delay == 0 || end.name != "EOF" {
						if took != want {
							t.Errorf("Serve took %v", took)
						}
					} else if took != delay {
						t.Errorf("Serve took %v", took)
					}
					c.mu.Lock()
					tries := c.tries
					c.mu.Unlock()
					time.Sleep(time.Hour)
					c.want()
					if c.tries != tries {
						t.Error("written after the end")
					}
				})
				want := map[string]int{
					fmt.Sprint("works ", end.cause):             each,
					fmt.Sprint("asks ", end.cause):              each,
					fmt.Sprint("cancelled ", &CancelledError{}): each,
				}
				if !maps.Equal(causes, want) {
					t.Errorf("got %v", causes)
				}
			})
		}
	}
}

// Handlers that do not return in time are named, whether the client has cancelled the task or not. Nothing is written
// when they return.
func TestTasksOutliveWaitDelay(t *testing.T) {
	s := tasker(inTask(func(context.Context) (string, error) { time.Sleep(time.Minute); return "", nil }))
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.caps = taskCaps
		c.task = c.becomeTask("1")
		c.becomeTask("2")
		c.play(`> 3+ tasks/cancel {"taskId":"$TASK"}`, "< 3+ {}")
		c.in.Close()
		err := <-c.done
		c.done <- nil
		if !errors.Is(err, ErrWaitDelay) || !strings.Contains(err.Error(), "tools/call do (id 2), a task") ||
			!strings.Contains(err.Error(), "tools/call do (id 1), cancelled") {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		c.want()
	})
}

// An end that comes before the call becomes a task: the call stays an ordinary one, because the client could not ask for
// the state any more.
func TestNoTaskAfterTheEnd(t *testing.T) {
	s := tasker(inTask(func(context.Context) (string, error) { return "done", nil }))
	s.CancelDelay = time.Hour
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.caps = taskCaps
		c.send("1+ call do")
		synctest.Wait()
		c.in.Close()
		time.Sleep(3 * time.Second)
		c.want("1+ said done")
	})
}

// A call that the client has cancelled before stays cancelled.
func TestNoTaskAfterACancel(t *testing.T) {
	inBubbleWith(t, tasker(inTask(noText)), "", taskCaps, func(c *client) {
		c.send("1+ call do")
		time.Sleep(time.Millisecond)
		c.send("cancel 1")
		time.Sleep(time.Minute)
		c.want()
	})
}

// The 2 ms after progress apply to the task as a response, and to no result of it (TSK-13).
func TestProgressBeforeATask(t *testing.T) {
	const call, progress = `> 1+ call do @7`, `< notifications/progress {"progressToken":7,"progress":`
	s := tasker(func(ctx context.Context) (string, error) {
		time.Sleep(time.Millisecond)
		for i := range 300 { // each 10 ms, and once when the call becomes a task
			Progress(ctx, float64(i), 0, strconv.Itoa(i))
			time.Sleep(10 * time.Millisecond)
		}
		return "done", nil
	})
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, s)
		c.caps = taskCaps
		c.send(call[2:])
		time.Sleep(time.Second + progressGap - 1)
		if got := c.recv(); len(got) != 100 || !strings.Contains(got[99], `"progress":99,`) {
			t.Fatalf("%d notifications, %s", len(got), got[len(got)-1])
		}
		time.Sleep(1)
		got := c.recv()
		if len(got) != 1 || !strings.Contains(got[0], `"resultType":"task"`) || !strings.Contains(got[0], `"statusMessage":"100"`) {
			t.Fatalf("got %q", got)
		}
		c.task = taskMade.FindStringSubmatch(got[0])[1]
		time.Sleep(time.Minute)
		c.want()
		if status := c.statusOf(c.task); status != "completed" {
			t.Error(status)
		}
	})
	// A client that does not read: the call becomes a task when the progress was written.
	s = tasker(func(ctx context.Context) (string, error) {
		Progress(ctx, 1, 0, "")
		time.Sleep(10 * time.Minute)
		return "done", nil
	})
	synctest.Test(t, func(t *testing.T) {
		c := serveUnread(t, s)
		c.caps = taskCaps
		c.send(call[2:])
		time.Sleep(time.Minute)
		c.listen()
		c.want(progress[2:] + "1}")
		time.Sleep(progressGap)
		if got := c.recv(); len(got) != 1 || !strings.Contains(got[0], `"resultType":"task"`) {
			t.Errorf("got %q", got)
		}
		c.cancel(nil)
		time.Sleep(time.Hour)
	})
	// While there is no room, the progress of a call goes on, until its handler has returned.
	returnAfter := 2 * time.Second
	s = tasker(func(ctx context.Context) (string, error) {
		Progress(ctx, 1, 0, "")
		time.Sleep(returnAfter)
		go func() {
			time.Sleep(1500 * time.Microsecond)
			Progress(ctx, 3, 0, "")
		}()
		Progress(ctx, 2, 0, "")
		return "done", nil
	})
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		for range maxTasks {
			c.becomeTask("1")
			time.Sleep(2 * time.Second)
		}
		c.send(call[2:])
		c.want(progress[2:] + "1}")
		time.Sleep(2 * time.Second)
		c.want(progress[2:] + "2}")
		time.Sleep(progressGap)
		c.want("1+ said done")
		// The same while the timer of TaskAfter waits.
		returnAfter = time.Second + progressGap/2
		c.send(call[2:])
		c.want(progress[2:] + "1}")
		time.Sleep(time.Minute)
		c.want("1+ said done")
	})
}

// What a handler and Server.Intercept see: one call, to its end.
func TestInterceptSeesATaskOnce(t *testing.T) {
	var seen []string
	s := tasker(inTask(func(ctx context.Context) (string, error) {
		select {
		case <-time.After(time.Minute):
			return "done", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}))
	for _, test := range []struct {
		before, limit  time.Duration
		replace        error
		seen, response string
	}{
		{0, time.Hour, nil, "<nil>", "+ said done"},
		{time.Hour, 2 * time.Hour, nil, "<nil>", "+ said done"}, // it waits before next
		{0, 10 * time.Second, nil, "context deadline exceeded", "+ failed context deadline exceeded"},
		{0, time.Hour, errors.New("refused"), "<nil>", "+ failed refused"},
		{0, time.Hour, &Error{Code: 7, Message: "refused"}, "<nil>", "! 7 refused"},
	} {
		seen = nil
		s.Intercept = func(ctx context.Context, next func(context.Context) error) error {
			time.Sleep(test.before)
			ctx, cancel := context.WithTimeout(ctx, test.limit)
			defer cancel()
			err := next(ctx)
			seen = append(seen, fmt.Sprint(string(RequestFrom(ctx).ID), " ", RequestFrom(ctx).Name, " ", err))
			return cmp.Or(test.replace, err)
		}
		inBubbleWith(t, s, "", taskCaps, func(c *client) {
			c.play("> 1+ call do", "~ 1s", "< "+taskResponse("1", state("working", "01")))
			time.Sleep(2 * time.Hour)
			got := c.ask(`2+ tasks/get {"taskId":"` + c.task + `"}`)
			if want := outcomeOf(test.response); len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("got %q, want %s", got, want)
			}
		})
		if want := []string{"1 do " + test.seen}; !slices.Equal(seen, want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
	}
}

// A task counts for MaxConcurrent until its handler returns, also when it was cancelled. Calls that wait are neither
// answered nor tasks until they begin.
func TestTasksCountForMaxConcurrent(t *testing.T) {
	s := tasker(func(context.Context) (string, error) { time.Sleep(10 * time.Second); return "done", nil })
	s.MaxConcurrent = 2
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		for i := range 100 {
			c.send(strconv.Itoa(i) + "+ call do")
		}
		for second := range 500 {
			time.Sleep(time.Second)
			got := c.recv()
			if want := second % 10; len(got) != 2 && want == 0 || len(got) != 0 && want != 0 {
				t.Fatalf("second %d: got %q", second, got)
			}
			for _, line := range got {
				c.task = taskMade.FindStringSubmatch(line)[1]
				if status := c.statusOf(c.task); status != "working" {
					t.Fatal(status)
				}
				if second == 0 { // its handler does not return before the others' do
					c.play(`> "c"+ tasks/cancel {"taskId":"$TASK"}`, `< "c"+ {}`)
				}
			}
		}
		time.Sleep(time.Minute)
	})
}

// Panics and Goexit in a task cost only the task.
func TestTaskThatDies(t *testing.T) {
	for _, die := range []func(){func() { panic("oh") }, runtime.Goexit} {
		s := tasker(inTask(func(context.Context) (string, error) { die(); return "", nil }))
		inBubbleWith(t, s, "", taskCaps, func(c *client) {
			c.task = c.becomeTask("1")
			time.Sleep(2 * time.Second)
			c.play(`> 2+ tasks/get {"taskId":"$TASK"}`, "< 2+ {"+state("completed", "02", outcomeOf("+ failed Internal error in tool do"))+"}",
				"> 3+ call none", "< 3! -32602 Unknown tool: none (there is do)")
		})
	}
}

// Enabled, log messages and RequestFrom, in and before a task.
func TestWhatATaskSees(t *testing.T) {
	s := &Server{}
	logger := slog.New(s.LogHandler(""))
	AddTool(s, Tool{
		Name: "do", TaskAfter: time.Second,
		Enabled: func(ctx context.Context) bool { return string(RequestFrom(ctx).ID) != "0" },
	}, func(ctx context.Context, _ none) (string, error) {
		logger.ErrorContext(ctx, "sent")
		time.Sleep(2 * time.Second)
		logger.ErrorContext(ctx, "dropped")
		r := RequestFrom(ctx)
		return fmt.Sprintf("%s %s %s %s", r.ID, r.Name, r.ProtocolVersion, r.Capabilities), nil
	})
	inBubbleWith(t, s, "", taskCaps, func(c *client) {
		c.play(`
			> 0+ call do
			< 0! -32602 Unknown tool: do (there is none)
			> 1+ tools/call {"name":"do","_meta":{"io.modelcontextprotocol/logLevel":"debug"}}
			< notifications/message {"level":"error","data":"sent"}
			~ 1s
			< `+taskResponse("1", state("working", "01")),
			"~ 1001ms", `> 2+ tasks/get {"taskId":"$TASK"}`,
			"< 2+ {"+state("completed", "02", outcomeOf("+ said 1 do 2026-07-28 "+taskCaps))+"}")
	})
}

// Both eras on one pipe: a second initialize ends the calls of the legacy session, and no task.
func TestInitializeKeepsTasks(t *testing.T) {
	s := tasker(inTask(func(context.Context) (string, error) { return "done", nil }))
	inBubbleWith(t, s, legacyPV, taskCaps, func(c *client) {
		c.send("1 call do", "2+ call do")
		time.Sleep(time.Second)
		c.play("< " + taskResponse("2", state("working", "01")))
		if got := c.ask(`"again" initialize ` + legacyPV + " " + taskCaps); len(got) != 2 || !strings.Contains(got[1], `"again"`) {
			t.Errorf("got %q", got)
		}
		time.Sleep(1001 * time.Millisecond)
		c.play(`> 3+ tasks/get {"taskId":"$TASK"}`, "< 3+ {"+state("completed", "02", outcomeOf("+ said done"))+"}")
	})
}
