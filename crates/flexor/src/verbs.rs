//! The verbs of another terminal: what kubectl's users type, against a laptop cluster that runs.
//!
//! ```text
//! words ─ args ─▶ kinds, names ─ flexor_local::api::Client ─▶ objects ─▶ tables, trees, JSON, YAML
//! ```
//!
//! Objects come in the shape that Kubernetes gives them, and nothing here asks for more than such an object holds, so that
//! a client of a Kubernetes cluster can stand in the place of the laptop's.

pub mod age;
mod apply;
mod args;
pub mod cells;
mod delete;
mod describe;
mod events;
mod fetch;
mod get;
mod kill;
mod kinds;
mod leading_options;
mod logs;
mod migrate;
mod missing;
mod plans;
mod pod_state;
mod scale;
mod selector;
mod show;
mod table;
mod top;
mod why;

use flexor_local::api::{Client, ClientError};
use flexor_local::state_dir::StateDir;
use thiserror::Error;

pub use self::age::since;
pub use self::apply::give;
pub use self::args::{StateDir as StateDirArg, Verb, amount};
pub use self::describe::Text;
pub use self::kinds::{ObjectKind, all as all_kinds, named as kinds_named};
pub use self::leading_options::{behind_the_verb, is_verb};
pub use self::table::Table;
use crate::exit::{Exit, Misused};
use crate::{output, run};

/// What was asked for cannot be had, which says nothing against the cluster.
#[derive(Debug, Error)]
#[error("{0}")]
struct Refusal(String);

/// Does what was typed.
pub fn run(verb: Verb) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        tokio::select! {
            done = carry_out(verb) => done,
            _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        }
    });
    done.or_else(told)
}

/// Tells why something was not done. How the process then ends.
pub fn told(error: anyhow::Error) -> anyhow::Result<Exit> {
    output::note(&format!("error: {}", output::with_causes(&error)));
    if error.is::<Misused>() {
        return Ok(Exit::Usage);
    }
    let is_refusal = match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused(_) | ClientError::Exists(_)) => true,
        Some(ClientError::NoCluster { .. } | ClientError::Lost(_)) => false,
        None => error.is::<Refusal>(),
    };
    Ok(if is_refusal { Exit::Failure } else { Exit::Infrastructure })
}

async fn carry_out(verb: Verb) -> anyhow::Result<Exit> {
    let client = connect(verb.state_dir()).await?;
    match verb {
        Verb::Get(args) => get::run(&client, &args).await,
        Verb::Describe(args) => describe::run(&client, &args).await,
        Verb::Logs(args) => logs::run(&client, &args).await,
        Verb::Events(args) => events::run(&client, &args).await,
        Verb::Scale(args) => scale::run(&client, &args).await,
        Verb::Migrate(args) => migrate::run(&client, &args).await,
        Verb::Delete(args) => delete::run(&client, &args).await,
        Verb::Kill(args) => kill::run(&client, &args).await,
        Verb::Top(args) => top::run(&client, &args).await,
        Verb::Why(args) => why::run(&client, &args).await,
        Verb::Apply(args) => apply::run(&client, &args).await,
    }
}

/// The cluster that is meant. Where a Kubernetes context is named one day, its client begins here.
async fn connect(place: &args::StateDir) -> anyhow::Result<Client> {
    let state_dir = StateDir::at(run::state_dir(place.state_dir.as_deref())?);
    Ok(Client::connect(&state_dir).await?)
}

fn refuse<T>(message: impl Into<String>) -> anyhow::Result<T> {
    Err(Refusal(message.into()).into())
}
