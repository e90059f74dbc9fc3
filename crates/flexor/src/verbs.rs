//! The verbs, kubectl's commands for a running laptop cluster.
//!
//! ```text
//! command line ─ args ─▶ kinds, names ─ flexor_local::api::Client ─▶ objects ─▶ tables, trees, JSON, YAML
//! ```
//!
//! Objects have the shape of Kubernetes objects. Verbs read nothing beyond such objects, so a client of a Kubernetes
//! cluster can replace the laptop's client.

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
mod kill_signal;
mod kinds;
mod leading_options;
mod logs;
mod migrate;
mod not_found;
mod pace;
mod plans;
mod pod_state;
mod scale;
mod selector;
mod show;
pub mod table;
mod top;
mod why;

use flexor_local::api::{Client, ClientError};
use flexor_local::state_dir::StateDir;
use thiserror::Error;

pub use self::age::since;
pub use self::apply::apply_manifests;
pub use self::args::{StateDirArg, USUAL_NAMESPACE, Verb, amount};
pub use self::describe::Text;
pub use self::kill_signal::spelled_out;
pub use self::kinds::{ObjectKind, all as all_kinds, named as kinds_named};
pub use self::leading_options::{behind_the_verb, is_verb};
pub use self::table::Table;
use crate::exit::{Exit, Misused};
use crate::{output, run};

/// A request that cannot be fulfilled, although the cluster works.
#[derive(Debug, Error)]
#[error("{0}")]
struct Refusal(String);

pub fn run(verb: Verb) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        tokio::select! {
            done = execute(verb) => done,
            _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        }
    });
    done.or_else(report_error)
}

/// Prints an error. Returns the exit code that fits it.
pub fn report_error(error: anyhow::Error) -> anyhow::Result<Exit> {
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

async fn execute(verb: Verb) -> anyhow::Result<Exit> {
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

/// Connects to the cluster of a state directory.
async fn connect(arg: &StateDirArg) -> anyhow::Result<Client> {
    let state_dir = StateDir::at(run::state_dir(arg.state_dir.as_deref())?);
    Ok(Client::connect(&state_dir).await?)
}

fn refuse<T>(message: impl Into<String>) -> anyhow::Result<T> {
    Err(Refusal(message.into()).into())
}
