//! `paddlecloud logs`.

use anyhow::anyhow;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, ResourceExt};

use super::LogsArgs;
use crate::exit::{Exit, Refused};
use crate::kubernetes::{block_on, refusal};
use crate::output;

/// Prints the end of each trainer's log under the name of its pod.
pub(super) fn run(args: &LogsArgs) -> anyhow::Result<Exit> {
    block_on(async {
        let cluster = args.cluster.connect().await?;
        let pods: Api<Pod> = Api::namespaced(cluster.client, &cluster.namespace);
        let trainers = pods.list(&ListParams::default().labels(&super::get::trainers_of(&args.job))).await;
        let mut names: Vec<String> = trainers.map_err(refusal)?.iter().map(ResourceExt::name_any).collect();
        names.retain(|name| args.w.as_ref().is_none_or(|wanted| wanted == name));
        if names.is_empty() {
            let what = args.w.as_ref().map_or("trainers".to_owned(), |pod| format!("trainer {pod}"));
            return Err(Refused(anyhow!("job {} has no {what}", args.job)).into());
        }
        names.sort_by_key(|name| super::get::natural(name));
        for name in names {
            let log = pods.logs(&name, &LogParams { tail_lines: Some(args.n), ..LogParams::default() }).await;
            let log = match log {
                Ok(log) => log,
                // A container that has not started has no log.
                Err(kube::Error::Api(status)) if status.code == 400 => format!("({})", status.message),
                Err(error) => return Err(refusal(error)),
            };
            output::text(&format!("==={name}===\n{}\n", log.trim_end_matches('\n')))?;
        }
        Ok(())
    })?;
    Ok(Exit::Success)
}
