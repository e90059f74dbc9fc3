//! `flexor kill`.

use flexor_local::api::Client;

use super::args::KillArgs;
use crate::exit::Exit;
use crate::output;

pub async fn run(client: &Client, args: &KillArgs) -> anyhow::Result<Exit> {
    let pod = super::pod_name(&args.pod)?;
    let signal = args.signal;
    client.kill(args.place.namespace.as_str(), pod, args.container.as_deref(), signal as i32).await?;
    output::text(&format!("pod/{pod} sent {signal}\n"))?;
    Ok(Exit::Success)
}
