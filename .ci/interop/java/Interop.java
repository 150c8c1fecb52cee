// The Java client: java -cp CLASSES Interop.java COMMAND [ARG...], or a URL in place of COMMAND

import io.modelcontextprotocol.client.McpClient;
import io.modelcontextprotocol.client.McpSyncClient;
import io.modelcontextprotocol.client.transport.HttpClientStreamableHttpTransport;
import io.modelcontextprotocol.client.transport.ServerParameters;
import io.modelcontextprotocol.client.transport.StdioClientTransport;
import io.modelcontextprotocol.json.McpJsonDefaults;
import io.modelcontextprotocol.spec.McpClientTransport;
import io.modelcontextprotocol.spec.McpSchema.*;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import reactor.core.publisher.Mono;

class Interop {
    static final Map<String, BlockingQueue<Object>> received = new ConcurrentHashMap<>();
    static volatile String action = "accept";

    static BlockingQueue<Object> queue(String kind) {
        return received.computeIfAbsent(kind, k -> new LinkedBlockingQueue<>());
    }

    static Object news(String kind) throws InterruptedException {
        Object got = queue(kind).poll(20, TimeUnit.SECONDS);
        check(got != null, "no " + kind + " in 20 s");
        return got;
    }

    static void check(boolean ok, Object what) {
        if (!ok) throw new AssertionError(what);
    }

    /**
     * Lets one thread at a time send. The library's sendMessage adds the message to a queue that only one thread can use.
     * The other threads try again for 100 ms and then fail with "Failed to enqueue message". On a busy machine the thread
     * that uses the queue may be suspended for longer than that. The call then fails although nothing was sent, so this is
     * not a fault of the server. With the lock the other threads wait. Nothing else changes: sendMessage does not wait for
     * the response, so the 100 calls of "together" are still in flight at the same time.
     */
    static class Transport extends StdioClientTransport {
        Transport(ServerParameters server) {
            super(server, McpJsonDefaults.getMapper());
        }

        @Override
        public synchronized Mono<Void> sendMessage(JSONRPCMessage message) {
            return super.sendMessage(message);
        }
    }

    static McpSyncClient connect(List<String> command, Duration timeout) {
        ServerParameters server = ServerParameters.builder(command.get(0)).args(command.subList(1, command.size())).build();
        McpClientTransport transport = command.get(0).startsWith("http:")
            ? HttpClientStreamableHttpTransport.builder(command.get(0)).endpoint(command.get(0)).build()
            : new Transport(server);
        return McpClient.sync(transport)
            .requestTimeout(timeout)
            .capabilities(ClientCapabilities.builder().roots(true).sampling().elicitation(true, true).build())
            .roots(new Root("file:///srv/ann", "ann"))
            .elicitation(Interop::answer)
            .urlElicitation(r -> {
                queue("url").add(r.url());
                return ElicitResult.builder(ElicitResult.Action.ACCEPT).build();
            })
            .sampling(r -> CreateMessageResult.builder(Role.ASSISTANT, text(r.messages().get(0).content()) + " indeed", "parrot").build())
            .progressConsumer(p -> queue("progress " + p.progressToken()).add(p.progress()))
            .loggingConsumer(l -> queue("message").add(l.level() + " " + l.logger()))
            .resourcesUpdateConsumer(r -> queue("updated").add(r.get(0).uri()))
            .toolsChangeConsumer(t -> queue("tools").add(t))
            .promptsChangeConsumer(p -> queue("prompts").add(p))
            .build();
    }

    static ElicitResult answer(ElicitFormRequest asked) {
        if (!action.equals("accept")) return ElicitResult.builder(ElicitResult.Action.DECLINE).build();
        Map<String, Object> known = Map.of("username", "ann", "email", "ann@example.com", "name", "Ann", "color", "blue", "context", "home", "ok", true);
        Map<String, Object> form = new HashMap<>();
        for (Object field : ((Map<?, ?>) asked.requestedSchema().get("properties")).keySet()) form.put(field.toString(), known.get(field));
        return new ElicitResult(ElicitResult.Action.ACCEPT, form);
    }

    static String text(Object content) {
        return ((TextContent) content).text();
    }

    final McpSyncClient client;
    final List<String> command;

    Interop(McpSyncClient client, List<String> command) {
        this.client = client;
        this.command = command;
    }

    CallToolResult tool(String name, Map<String, Object> arguments) {
        return client.callTool(CallToolRequest.builder(name).arguments(arguments).build());
    }

    String said(String name) {
        return text(tool(name, Map.of()).content().get(0));
    }

    void fails(String want, Runnable call) {
        try {
            call.run();
        } catch (RuntimeException e) {
            check(e.toString().toLowerCase().contains(want), e);
            return;
        }
        throw new AssertionError("did not fail");
    }

    /** Starts a call, waits until its handler has started, and returns its future. */
    CompletableFuture<CallToolResult> begun(String token) throws Exception {
        var slow = CompletableFuture.supplyAsync(() -> client.callTool(CallToolRequest.builder("slow").arguments(Map.of()).progressToken(token).build()));
        news("progress " + token);
        return slow;
    }

    String lists() {
        check(client.listTools().tools().stream().anyMatch(t -> t.name().equals("add") && t.outputSchema() != null), "add");
        check(client.listResources().resources().stream().anyMatch(r -> r.uri().equals("test://static-text")), "static-text");
        check(client.listResourceTemplates().resourceTemplates().get(0).uriTemplate().equals("test://template/{id}/data"), "template");
        check(client.listPrompts().prompts().stream().anyMatch(p -> p.name().equals("test_simple_prompt")), "prompt");
        return null;
    }

    String call() {
        check(said("test_simple_text").startsWith("This is a simple text"), "text");
        check(tool("test_image_content", Map.of()).content().get(0) instanceof ImageContent, "image");
        check(tool("test_audio_content", Map.of()).content().get(0) instanceof AudioContent, "audio");
        check(tool("test_embedded_resource", Map.of()).content().get(0) instanceof EmbeddedResource, "resource");
        check(tool("test_multiple_content_types", Map.of()).content().size() == 3, "three");
        return null;
    }

    String errors() {
        check(tool("test_error_handling", Map.of()).isError(), "error");
        check(tool("slow", Map.of("seconds", "many")).isError(), "many");
        fails("no_such_tool", () -> tool("no_such_tool", Map.of()));
        fails("not found", () -> client.readResource(new ReadResourceRequest("test://nothing")));
        return null;
    }

    String structured() {
        check(tool("add", Map.of("a", 2, "b", 3)).structuredContent().equals(Map.of("sum", 5)), "sum");
        return null;
    }

    String progress() throws Exception {
        client.callTool(CallToolRequest.builder("test_tool_with_progress").arguments(Map.of()).progressToken("p").build());
        // The library calls the consumer on another thread for each notification, so the order may change here.
        // run.mjs checks the order in which the server sent them.
        var seen = Set.of(news("progress p"), news("progress p"), news("progress p"));
        check(seen.equals(Set.of(0.0, 50.0, 100.0)), seen);
        return null;
    }

    String cancel() {
        return "the library cannot cancel a call";
    }

    String timeout() {
        try (McpSyncClient hasty = connect(command, Duration.ofMillis(700))) {
            hasty.initialize();
            fails("timeout", () -> hasty.callTool(CallToolRequest.builder("slow").arguments(Map.of()).build()));
            check(hasty.ping() != null, "ping");
        }
        return null;
    }

    String resources() {
        check(((TextResourceContents) read("test://static-text")).text().contains("static text resource"), "text");
        check(((BlobResourceContents) read("test://static-binary")).blob().startsWith("iVBORw0KGgo"), "blob");
        check(((TextResourceContents) read("test://template/42/data")).text().contains("42"), "template");
        return null;
    }

    ResourceContents read(String uri) {
        return client.readResource(new ReadResourceRequest(uri)).contents().get(0);
    }

    String subscribe() throws Exception {
        String uri = "test://watched-resource";
        client.subscribeResource(new SubscribeRequest(uri));
        tool("touch_watched_resource", Map.of());
        check(news("updated").equals(uri), "updated");
        client.unsubscribeResource(new UnsubscribeRequest(uri));
        tool("touch_watched_resource", Map.of());
        said("test_simple_text");
        check(queue("updated").isEmpty(), "the client is notified although it has unsubscribed");
        return null;
    }

    String prompts() {
        String name = "test_prompt_with_arguments";
        var got = client.getPrompt(new GetPromptRequest(name, Map.of("arg1", "x", "arg2", "y")));
        check(text(got.messages().get(0).content()).contains("arg1='x', arg2='y'"), got);
        got = client.getPrompt(new GetPromptRequest("test_prompt_with_image", Map.of()));
        check(got.messages().get(0).content() instanceof ImageContent, got);
        fails("arg2", () -> client.getPrompt(new GetPromptRequest(name, Map.of("arg1", "x"))));
        return null;
    }

    String completion() {
        var prompt = new CompleteRequest(new PromptReference("test_prompt_with_arguments"), new CompleteRequest.CompleteArgument("arg1", "v"));
        check(client.completeCompletion(prompt).completion().values().equals(List.of("v1", "v2")), "prompt");
        var template = new CompleteRequest(new ResourceReference("test://template/{id}/data"), new CompleteRequest.CompleteArgument("id", "v"));
        check(client.completeCompletion(template).completion().values().equals(List.of("v1", "v2", "v3")), "template");
        return null;
    }

    String logging() throws Exception {
        client.setLoggingLevel(LoggingLevel.INFO);
        tool("test_tool_with_logging", Map.of());
        for (int i = 0; i < 3; i++) check(news("message").equals("INFO everything"), "message");
        return null;
    }

    String elicitation() throws Exception {
        var who = Map.<String, Object>of("message", "Who?");
        check(text(tool("test_elicitation", who).content().get(0)).contains("ann@example.com"), "form");
        check(said("test_url_elicitation").equals("on the way"), "url");
        check(news("url").equals("https://example.com/login"), "login");
        check(said("test_input_required_result_multi_round").equals("Ann likes blue"), "rounds");
        action = "decline";
        check(text(tool("test_elicitation", who).content().get(0)).contains("action=decline"), "decline");
        action = "accept";
        return null;
    }

    String sampling() {
        check(text(tool("test_sampling", Map.of("prompt", "Fine")).content().get(0)).equals("LLM response: Fine indeed"), "sampling");
        return null;
    }

    String roots() {
        check(said("roots").contains("file:///srv/ann"), "roots");
        check(said("test_input_required_result_multiple_inputs").endsWith("Ann, 1 roots"), "inputs");
        client.rootsListChangedNotification();
        return null;
    }

    String changes() throws Exception {
        for (String what : List.of("tool", "prompt")) {
            tool("test_trigger_" + what + "_change", Map.of());
            news(what + "s");
        }
        return null;
    }

    String together() {
        var sums = new ArrayList<CompletableFuture<CallToolResult>>();
        for (int i = 0; i < 100; i++) {
            int a = i;
            sums.add(CompletableFuture.supplyAsync(() -> tool("add", Map.of("a", a, "b", 1))));
        }
        for (int i = 0; i < 100; i++) check(sums.get(i).join().structuredContent().equals(Map.of("sum", i + 1)), i);
        return null;
    }

    interface Step {
        String run() throws Exception;
    }

    static void step(String name, Step step) {
        try {
            boolean leftOut = List.of(System.getenv().getOrDefault("LEFT_OUT", "").split(" ")).contains(name);
            String lack = leftOut ? System.getenv("WHY") : step.run();
            System.out.println(lack == null ? "ok " + name : "not " + name + ": " + lack);
        } catch (Throwable e) {
            System.out.println("FAILED " + name + ": " + (e + " " + e.getCause()).replace("\n", " "));
        }
    }

    public static void main(String[] args) throws Exception {
        List<String> command = Arrays.asList(args);
        McpSyncClient client = connect(command, Duration.ofSeconds(30));
        step("connect", () -> {
            check(client.initialize().protocolVersion().equals("2025-11-25"), client.getCurrentInitializationResult());
            return null;
        });
        var steps = new Interop(client, command);
        step("lists", steps::lists);
        step("call", steps::call);
        step("errors", steps::errors);
        step("structured", steps::structured);
        step("progress", steps::progress);
        step("cancel", steps::cancel);
        step("timeout", steps::timeout);
        step("resources", steps::resources);
        step("subscribe", steps::subscribe);
        step("prompts", steps::prompts);
        step("completion", steps::completion);
        step("logging", steps::logging);
        step("elicitation", steps::elicitation);
        step("sampling", steps::sampling);
        step("roots", steps::roots);
        step("changes", steps::changes);
        step("together", steps::together);
        client.closeGracefully();
        System.out.println("ok close");
        try (McpSyncClient busy = connect(command, Duration.ofSeconds(30))) {
            busy.initialize();
            new Interop(busy, command).begun("w");
        }
        System.out.println("ok close at work");
        System.exit(0); // threads of the library may still run
    }
}
