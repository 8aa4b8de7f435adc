//! The stack that the tests share: regress/clients/stack.py, named by STACK, starts a database and two proxies.

use std::error::Error;
use std::process::Stdio;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The types of policy reports that the tests use.
pub fn reports() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("wgpolicyk8s.io", "v1alpha2", "PolicyReport"),
        "policyreports",
    )
}

pub struct Stack {
    process: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    kubeconfig: String,
}

impl Stack {
    pub async fn start() -> Result<Stack> {
        let mut process = Command::new("/usr/bin/python3")
            .arg(std::env::var("STACK")?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or("stack.py has no output")?;
        let mut stack = Stack {
            process,
            input,
            lines: BufReader::new(output).lines(),
            kubeconfig: String::new(),
        };
        let answer = stack.answer().await?;
        stack.kubeconfig = answer["kubeconfig"]
            .as_str()
            .ok_or("stack.py names no kubeconfig")?
            .to_string();
        Ok(stack)
    }

    async fn answer(&mut self) -> Result<Value> {
        let line = self.lines.next_line().await?.ok_or("stack.py has ended")?;
        let answer: Value = serde_json::from_str(&line)?;
        match answer.get("error") {
            Some(error) => Err(error.to_string().into()),
            None => Ok(answer),
        }
    }

    /// Sends a command to stack.py and waits for its end.
    pub async fn run(&mut self, command: &str) -> Result<()> {
        let input = self.input.as_mut().ok_or("stack.py has been ended")?;
        input.write_all(format!("{command}\n").as_bytes()).await?;
        self.answer().await.map(|_| ())
    }

    /// Reports of a namespace, through the first proxy.
    pub async fn reports(&self, namespace: &str) -> Result<Api<DynamicObject>> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Api::namespaced_with(
            Client::try_from(config)?,
            namespace,
            &reports(),
        ))
    }

    pub async fn end(mut self) -> Result<()> {
        self.input = None;
        self.process.wait().await?;
        Ok(())
    }
}

/// Creates a report with one result.
pub async fn create(api: &Api<DynamicObject>, name: &str) -> Result<DynamicObject> {
    let mut report = DynamicObject::new(name, &reports());
    report.metadata = ObjectMeta {
        name: Some(name.to_string()),
        ..ObjectMeta::default()
    };
    report.data = json!({"results": [{"policy": "p", "result": "pass"}]});
    Ok(api.create(&PostParams::default(), &report).await?)
}
