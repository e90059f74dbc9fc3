//! `flexor kill`: sends a signal to a container of a pod.

use flexor_local::api::Client;

use super::args::KillArgs;
use super::fetch;
use crate::exit::Exit;
use crate::output;

pub async fn run(client: &Client, args: &KillArgs) -> anyhow::Result<Exit> {
    let namespace = args.namespace.namespace.as_str();
    let pod = &fetch::pod(client, namespace, &args.pod).await?;
    let signal = args.signal;
    if let Err(error) = client.kill(namespace, pod, args.container.as_deref(), signal as i32).await {
        return Err(fetch::no_pod(client, namespace, pod, error).await);
    }
    output::text(&format!("pod/{pod} sent {signal}\n"))?;
    Ok(Exit::Success)
}
