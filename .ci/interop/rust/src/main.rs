//! The Rust client, rmcp: interop legacy|auto|modern COMMAND [ARG...], or a URL in place of COMMAND
#![allow(deprecated)] // for the legacy era

use std::{env, time::Duration};

use rmcp::{
    ClientHandler, ErrorData, RoleClient, ServiceError,
    model::*,
    service::{ClientLifecycleMode, NotificationContext, RequestContext, RunningService, serve_client_with_lifecycle},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::{Value, from_value, json, to_value};
use tokio::{
    process::Command,
    sync::{Mutex, mpsc},
    time::timeout,
};

type Failure = Box<dyn std::error::Error>;
type Outcome = Result<(), Failure>;

/// Responds to requests of the server in the protocol's JSON, and forwards notifications.
struct Host(mpsc::UnboundedSender<(&'static str, Value)>);

impl Host {
    fn forward(&self, method: &'static str, params: Value) {
        let _ = self.0.send((method, params));
    }
}

fn plain<T: serde::Serialize>(value: T) -> Value {
    to_value(value).unwrap()
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        from_value(json!({
            "protocolVersion": "2025-11-25", "clientInfo": {"name": "interop", "version": "1.0.0"},
            "capabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": true}}
        }))
        .unwrap()
    }

    async fn create_elicitation(&self, params: ElicitRequestParams, _: RequestContext<RoleClient>) -> Result<ElicitResult, ErrorData> {
        let asked = plain(params);
        self.forward("asked", asked.clone());
        let answer = match (&asked["requestedSchema"]["properties"], asked["message"].as_str()) {
            (_, Some("No?")) => json!({"action": "decline"}),
            (Value::Object(fields), _) => {
                let answers = json!({"username": "ann", "email": "ann@example.com", "name": "Ann", "color": "blue", "context": "home", "ok": true});
                let form: serde_json::Map<_, _> = fields.keys().map(|k| (k.clone(), answers[k].clone())).collect();
                json!({"action": "accept", "content": form})
            }
            _ => json!({"action": "accept"}),
        };
        Ok(from_value(answer).unwrap())
    }

    async fn create_message(&self, params: CreateMessageRequestParams, _: RequestContext<RoleClient>) -> Result<CreateMessageResult, ErrorData> {
        let content = plain(params)["messages"][0]["content"].clone();
        let said = if content.is_array() { content[0].clone() } else { content };
        let text = format!("{} indeed", said["text"].as_str().unwrap());
        Ok(from_value(json!({"role": "assistant", "model": "parrot", "content": {"type": "text", "text": text}})).unwrap())
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(from_value(json!({"roots": [{"uri": "file:///srv/ann", "name": "ann"}]})).unwrap())
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.forward("progress", plain(params));
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.forward("message", plain(params));
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.forward("updated", plain(params));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.forward("tools", Value::Null);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.forward("prompts", Value::Null);
    }
}

struct Steps {
    client: RunningService<RoleClient, Host>,
    received: Mutex<mpsc::UnboundedReceiver<(&'static str, Value)>>,
    modern: bool,
}

fn is(got: &Value, want: Value) -> Outcome {
    if *got == want { Ok(()) } else { Err(format!("{got}, not {want}").into()) }
}

fn has(got: &Value, want: &str) -> Outcome {
    if got.to_string().contains(want) { Ok(()) } else { Err(format!("no {want} in {got}").into()) }
}

fn fails<T: std::fmt::Debug>(result: Result<T, ServiceError>, want: &str) -> Outcome {
    match result {
        Err(e) if e.to_string().contains(want) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

impl Steps {
    async fn connect(mode: &str, command: &[String]) -> Result<Steps, Failure> {
        let mut cmd = Command::new(&command[0]);
        cmd.args(&command[1..]);
        let newest = vec![from_value(json!("2026-07-28"))?];
        let lifecycle = match mode {
            "legacy" => ClientLifecycleMode::Initialize,
            "auto" => ClientLifecycleMode::Auto { preferred_versions: newest, legacy_version: None },
            _ => ClientLifecycleMode::Discover { preferred_versions: newest },
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let client = if command[0].starts_with("http:") {
            let transport = StreamableHttpClientTransport::from_uri(command[0].as_str());
            serve_client_with_lifecycle(Host(sender), transport, lifecycle).await?
        } else {
            serve_client_with_lifecycle(Host(sender), TokioChildProcess::new(cmd)?, lifecycle).await?
        };
        Ok(Steps { client, received: Mutex::new(receiver), modern: mode != "legacy" })
    }

    /// Returns the next notification of a kind, and discards all others.
    async fn news(&self, kind: &str) -> Result<Value, Failure> {
        let mut received = self.received.lock().await;
        loop {
            match timeout(Duration::from_secs(20), received.recv()).await {
                Ok(Some((k, params))) if k == kind => return Ok(params),
                Ok(Some(_)) => {}
                _ => return Err(format!("no {kind} in 20 s").into()),
            }
        }
    }

    async fn tool(&self, name: &str, args: Value) -> Result<Value, ServiceError> {
        let params = from_value(json!({"name": name, "arguments": args})).unwrap();
        self.client.call_tool(params).await.map(plain)
    }

    async fn text(&self, name: &str, args: Value) -> Result<Value, ServiceError> {
        Ok(self.tool(name, args).await?["content"][0]["text"].clone())
    }

    async fn read(&self, uri: &str) -> Result<Value, ServiceError> {
        let params = from_value(json!({"uri": uri})).unwrap();
        Ok(plain(self.client.read_resource(params).await?)["contents"][0].clone())
    }

    async fn prompt(&self, name: &str, args: Value) -> Result<Value, ServiceError> {
        let params = from_value(json!({"name": name, "arguments": args})).unwrap();
        Ok(plain(self.client.get_prompt(params).await?)["messages"][0]["content"].clone())
    }

    async fn lists(&self) -> Outcome {
        let tools = plain(self.client.list_all_tools().await?);
        let add = tools.as_array().unwrap().iter().find(|t| t["name"] == "add").ok_or("no add")?;
        is(&add["outputSchema"]["properties"]["sum"]["type"], json!("integer"))?;
        is(&plain(self.client.list_all_resources().await?)[0]["uri"], json!("test://static-text"))?;
        is(&plain(self.client.list_all_resource_templates().await?)[0]["uriTemplate"], json!("test://template/{id}/data"))?;
        is(&json!(self.client.list_all_prompts().await?.len()), json!(5))
    }

    async fn call(&self) -> Outcome {
        has(&self.text("test_simple_text", json!({})).await?, "This is a simple text")?;
        for kind in ["image", "audio"] {
            is(&self.tool(&format!("test_{kind}_content"), json!({})).await?["content"][0]["type"], json!(kind))?;
        }
        is(&self.tool("test_embedded_resource", json!({})).await?["content"][0]["type"], json!("resource"))?;
        is(&self.tool("test_multiple_content_types", json!({})).await?["content"][2]["type"], json!("resource"))
    }

    async fn errors(&self) -> Outcome {
        is(&self.tool("test_error_handling", json!({})).await?["isError"], json!(true))?;
        is(&self.tool("slow", json!({"seconds": "many"})).await?["isError"], json!(true))?;
        fails(self.tool("no_such_tool", json!({})).await, "no_such_tool")?;
        fails(self.read("test://nothing").await, "not found")
    }

    async fn structured(&self) -> Outcome {
        is(&self.tool("add", json!({"a": 2, "b": 3})).await?["structuredContent"], json!({"sum": 5}))
    }

    async fn progress(&self) -> Outcome {
        is(&self.text("test_tool_with_progress", json!({})).await?, json!("done"))?;
        for want in [0.0, 50.0, 100.0] {
            is(&self.news("progress").await?["progress"], json!(want))?;
        }
        Ok(())
    }

    async fn cancel(&self) -> Outcome {
        tokio::select! { // drops the call when the notification arrives
            response = self.tool("slow", json!({})) => return Err(format!("{response:?}").into()),
            begun = self.news("progress") => begun?,
        };
        self.text("test_simple_text", json!({})).await?;
        Ok(())
    }

    async fn resources(&self) -> Outcome {
        has(&self.read("test://static-text").await?["text"], "static text resource")?;
        has(&self.read("test://static-binary").await?["blob"], "iVBORw0KGgo")?;
        has(&self.read("test://template/42/data").await?["text"], "42")
    }

    async fn subscribe(&self) -> Outcome {
        let uri = "test://watched-resource";
        if self.modern {
            let mut changes = self.client.listen(from_value(json!({"resourceSubscriptions": [uri]}))?).await?;
            self.tool("touch_watched_resource", json!({})).await?;
            has(&plain(timeout(Duration::from_secs(20), changes.next()).await??), uri)?;
            return Ok(changes.cancel().await?);
        }
        self.client.subscribe(from_value(json!({"uri": uri}))?).await?;
        self.tool("touch_watched_resource", json!({})).await?;
        is(&self.news("updated").await?["uri"], json!(uri))?;
        Ok(self.client.unsubscribe(from_value(json!({"uri": uri}))?).await?)
    }

    async fn prompts(&self) -> Outcome {
        let name = "test_prompt_with_arguments";
        has(&self.prompt(name, json!({"arg1": "x", "arg2": "y"})).await?["text"], "arg1='x', arg2='y'")?;
        is(&self.prompt("test_prompt_with_image", json!({})).await?["type"], json!("image"))?;
        fails(self.prompt(name, json!({"arg1": "x"})).await, "arg2")
    }

    async fn completion(&self) -> Outcome {
        let got = self.client.complete_prompt_simple("test_prompt_with_arguments", "arg1", "v").await?;
        is(&json!(got), json!(["v1", "v2"]))?;
        let got = self.client.complete_resource_simple("test://template/{id}/data", "id", "v").await?;
        is(&json!(got), json!(["v1", "v2", "v3"]))
    }

    async fn logging(&self) -> Outcome {
        let mut params = json!({"name": "test_tool_with_logging", "arguments": {}});
        if self.modern {
            params["_meta"] = json!({"io.modelcontextprotocol/logLevel": "info"});
        } else {
            self.client.set_level(from_value(json!({"level": "info"}))?).await?;
        }
        self.client.call_tool(from_value(params)?).await?;
        for _ in 0..3 {
            let m = self.news("message").await?;
            is(&json!([m["level"], m["logger"]]), json!(["info", "everything"]))?;
        }
        Ok(())
    }

    async fn elicitation(&self) -> Outcome {
        has(&self.text("test_elicitation", json!({"message": "Who?"})).await?, "ann@example.com")?;
        is(&self.news("asked").await?["message"], json!("Who?"))?;
        is(&self.text("test_url_elicitation", json!({})).await?, json!("on the way"))?;
        is(&self.news("asked").await?["url"], json!("https://example.com/login"))?;
        is(&self.text("test_input_required_result_multi_round", json!({})).await?, json!("Ann likes blue"))?;
        has(&self.prompt("test_input_required_result_prompt", json!({})).await?["text"], "context: home")?;
        has(&self.text("test_elicitation", json!({"message": "No?"})).await?, "action=decline")
    }

    async fn sampling(&self) -> Outcome {
        is(&self.text("test_sampling", json!({"prompt": "Fine"})).await?, json!("LLM response: Fine indeed"))
    }

    async fn roots(&self) -> Outcome {
        has(&self.text("roots", json!({})).await?, "file:///srv/ann")?;
        has(&self.text("test_input_required_result_multiple_inputs", json!({})).await?, "Ann, 1 roots")?;
        if !self.modern {
            self.client.notify_roots_list_changed().await?;
        }
        Ok(())
    }

    async fn changes(&self) -> Outcome {
        if self.modern {
            let filter = json!({"toolsListChanged": true, "promptsListChanged": true});
            let mut changes = self.client.listen(from_value(filter)?).await?;
            for what in ["tool", "prompt"] {
                self.tool(&format!("test_trigger_{what}_change"), json!({})).await?;
                // A tool is added and removed, so there may be two notifications for it.
                let expected = format!("{what}s/list_changed");
                while !plain(timeout(Duration::from_secs(20), changes.next()).await??).to_string().contains(&expected) {}
            }
            return Ok(changes.cancel().await?);
        }
        for what in ["tool", "prompt"] {
            self.tool(&format!("test_trigger_{what}_change"), json!({})).await?;
            self.news(&format!("{what}s")).await?;
        }
        Ok(())
    }
}

fn report(name: &str, outcome: Outcome) {
    match outcome {
        Ok(()) => println!("ok {name}"),
        Err(e) => println!("FAILED {name}: {}", e.to_string().replace('\n', " ")),
    }
}

#[tokio::main]
async fn main() -> Outcome {
    let args: Vec<String> = env::args().collect();
    let mut s = Steps::connect(&args[1], &args[2..]).await?;
    let version = plain(s.client.peer_info())["protocolVersion"].clone();
    report("connect", is(&version, json!(if s.modern { "2026-07-28" } else { "2025-11-25" })));
    let left_out = env::var("LEFT_OUT").unwrap_or_default();
    macro_rules! take {
        ($($step:ident)*) => { $(match left_out.split(' ').any(|name| name == stringify!($step)) {
            true => println!("not {}: {}", stringify!($step), env::var("WHY")?),
            false => report(stringify!($step), s.$step().await),
        })* };
    }
    take!(lists call errors structured progress cancel resources subscribe prompts completion logging elicitation sampling roots changes);
    report("close", s.client.close().await.map(|_| ()).map_err(Failure::from));

    let s = Steps::connect(&args[1], &args[2..]).await?;
    let token = s.client.cancellation_token();
    let (slow, begun) = tokio::join!(s.tool("slow", json!({})), async {
        let begun = s.news("progress").await;
        token.cancel();
        begun
    });
    report("close at work", begun.map(|_| ()).and(fails(slow, "")));
    s.client.waiting().await?;
    Ok(())
}
