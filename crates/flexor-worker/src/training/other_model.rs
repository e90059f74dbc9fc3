//! Why the job will not have this worker's model.
//!
//! The master knows models as texts and cannot say what is different about two of them; a worker can.

use std::time::Duration;

use flexor_ps::client::ClientError;
use flexor_ps::spec::ModelSpec;
use flexor_wire::Token;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::ps_membership_client::PsMembershipClient;

use super::{Place, TrainingError};

/// How long the master is asked for the model that it has. It has just answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// A refusal, with what is different where the job has another model.
pub(super) async fn explained(declined: ClientError, place: &Place, ours: &ModelSpec) -> TrainingError {
    let theirs = match &declined {
        ClientError::Declined(_) => tokio::time::timeout(PATIENCE, known_model(place)).await.ok().flatten(),
        ClientError::Address(_) | ClientError::Refused(_) | ClientError::InvalidReply(_) => None,
    };
    match theirs.and_then(|theirs| different(ours, &theirs)) {
        Some(differences) => TrainingError::OtherModel { differences },
        None => declined.into(),
    }
}

/// The job takes a model only as it knows it, with the numbers of the optimizer.
fn different(ours: &ModelSpec, theirs: &ModelSpec) -> Option<String> {
    let numbers = || {
        let (here, there) = (format!("{:?}", ours.optimizer), format!("{:?}", theirs.optimizer));
        (here != there).then(|| format!("optimizer: {here} here, {there} in the job"))
    };
    ours.differences(theirs, "the job").or_else(numbers)
}

/// What the master says that the job trains.
async fn known_model(place: &Place) -> Option<ModelSpec> {
    let channel = place.dialer.endpoint(&place.master).ok()?.connect().await.ok()?;
    let mut client = PsMembershipClient::with_interceptor(channel, Token::carried(place.token.as_ref()));
    let mut maps = client.watch_partition_map(wire::WatchPartitionMapRequest::default()).await.ok()?.into_inner();
    serde_json::from_str(&maps.message().await.ok()??.model).ok()
}
