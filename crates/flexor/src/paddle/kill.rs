//! `paddlecloud kill`.

use flexor_dialects::edl::TrainingJob;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams};

use super::{KillArgs, package};
use crate::exit::Exit;
use crate::kubernetes::{block_on, refusal};
use crate::output;

/// Deletes the job. The cluster removes what it owns; the package is deleted at once, so that a job of the same name can
/// follow.
pub(super) fn run(args: &KillArgs) -> anyhow::Result<Exit> {
    block_on(async {
        let cluster = args.cluster.connect().await?;
        let jobs: Api<TrainingJob> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        jobs.delete(&args.job, &DeleteParams::background()).await.map_err(refusal)?;
        let packages: Api<ConfigMap> = Api::namespaced(cluster.client, &cluster.namespace);
        let of_job = ListParams::default().labels(&format!("{}={}", package::LABEL, args.job));
        packages.delete_collection(&DeleteParams::default(), &of_job).await.map_err(refusal)?;
        output::text(&format!("{} killed.\n", args.job))
    })?;
    Ok(Exit::Success)
}
