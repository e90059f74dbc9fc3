//! `flexor logs`: prints the log of a container, and follows it with `-f`.

use flexor_local::api::{Client, LogChunk, LogOptions};

use super::args::LogsArgs;
use super::fetch;
use crate::exit::Exit;
use crate::output;

pub async fn run(client: &Client, args: &LogsArgs) -> anyhow::Result<Exit> {
    let options = LogOptions { container: args.container.clone(), follow: args.follow, tail: args.tail };
    let namespace = args.namespace.namespace.as_str();
    let pod = &fetch::pod(client, namespace, &args.pod).await?;
    let mut logs = match client.logs(namespace, pod, &options).await {
        Ok(logs) => logs,
        Err(error) => return Err(fetch::no_pod(client, namespace, pod, error).await),
    };
    while let Some(part) = logs.next().await? {
        match part {
            LogChunk::Bytes(bytes) if !output::raw(&bytes)? => break,
            LogChunk::Bytes(_) => {}
            LogChunk::Replaced => {
                output::note(&format!("note: {pod} was replaced; the log of its replacement follows"));
            }
        }
    }
    Ok(Exit::Success)
}
