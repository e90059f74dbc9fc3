//! `flexor logs`.

use flexor_local::api::{Client, LogOptions};

use super::args::LogsArgs;
use crate::exit::Exit;
use crate::output;

pub async fn run(client: &Client, args: &LogsArgs) -> anyhow::Result<Exit> {
    let options = LogOptions { container: args.container.clone(), follow: args.follow, tail: args.tail };
    let pod = super::pod_name(&args.pod)?;
    let mut logs = client.logs(args.place.namespace.as_str(), pod, &options).await?;
    while let Some(bytes) = logs.next().await? {
        if !output::raw(&bytes)? {
            break;
        }
    }
    Ok(Exit::Success)
}
