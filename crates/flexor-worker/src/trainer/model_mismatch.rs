//! Explains why the job refuses this worker's model.
//!
//! The master stores models as text and cannot compare them; a worker can.

use std::time::Duration;

use flexor_ps::client::ClientError;
use flexor_ps::spec::ModelSpec;
use flexor_wire::Token;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::ps_membership_client::PsMembershipClient;

use super::{TrainingError, WorkerContext};

/// How long to wait for the job's model. The master has just answered.
const MODEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The refusal, with the differences if the job trains another model.
pub(super) async fn explain(declined: ClientError, context: &WorkerContext, ours: &ModelSpec) -> TrainingError {
    let theirs = match &declined {
        ClientError::Declined(_) => tokio::time::timeout(MODEL_TIMEOUT, fetch_job_model(context)).await.ok().flatten(),
        ClientError::Address(_) | ClientError::Refused(_) | ClientError::InvalidReply(_) => None,
    };
    match theirs.and_then(|theirs| describe_difference(ours, &theirs)) {
        Some(differences) => TrainingError::OtherModel { differences },
        None => declined.into(),
    }
}

/// The job accepts only an identical model, including the optimizer's parameters.
fn describe_difference(ours: &ModelSpec, theirs: &ModelSpec) -> Option<String> {
    let numbers = || {
        let (here, there) = (format!("{:?}", ours.optimizer), format!("{:?}", theirs.optimizer));
        (here != there).then(|| format!("optimizer: {here} here, {there} in the job"))
    };
    ours.differences(theirs, "the job").or_else(numbers)
}

/// Fetches the job's model from the master.
async fn fetch_job_model(context: &WorkerContext) -> Option<ModelSpec> {
    let channel = context.dialer.endpoint(&context.master).ok()?.connect().await.ok()?;
    let mut client = PsMembershipClient::with_interceptor(channel, Token::carried(context.token.as_ref()));
    let mut maps = client.watch_partition_map(wire::WatchPartitionMapRequest::default()).await.ok()?.into_inner();
    serde_json::from_str(&maps.message().await.ok()??.model).ok()
}
