//! What can be typed after a verb.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use flexor_model::{DnsLabel, Quantity, QuantityError, RoleName};
use nix::sys::signal::Signal;

use super::selector::Selector;

/// The namespace of those that name none.
pub const USUAL_NAMESPACE: &str = "default";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List jobs, plans, pods or events of the laptop cluster
    #[command(
        after_help = "Examples:\n  flexor get pods\n  flexor get elasticjobs,scaleplans -A\n  flexor get pods -l elasticjob-name=torch-mnist -w\n  flexor get pod torch-mnist-edljob-worker-0 -o yaml"
    )]
    Get(GetArgs),
    /// Tell everything about an object, and what happened to it
    #[command(after_help = "Examples:\n  flexor describe elasticjob torch-mnist\n  flexor describe pods")]
    Describe(DescribeArgs),
    /// Print what a container has printed
    #[command(after_help = "Example:\n  flexor logs -f torch-mnist-edljob-worker-0 --tail 20")]
    Logs(LogsArgs),
    /// List what happened
    #[command(after_help = "Example:\n  flexor events -w")]
    Events(EventsArgs),
    /// Change how many replicas a role of a job has
    ///
    /// Numbers are how many there are to be in all; a chief is a role of its own, and not one of the workers. A TorchElastic
    /// job has the number in its description, which is edited, as `kubectl scale` does it. For a DLRover job a ScalePlan is
    /// made, named after the job.
    #[command(
        after_help = "Examples:\n  flexor scale torch-mnist --worker 3\n  flexor scale quickstart --worker 3 --ps 2\n  flexor scale elasticjob imagenet --replicas 1"
    )]
    Scale(ScaleArgs),
    /// Move a parameter server or a worker to a pod with other resources
    ///
    /// A ScalePlan is made, named after the job. The pod stays until its successor runs, and a parameter server until it
    /// has given away what it keeps; training goes on meanwhile. `flexor get scaleplans` tells when it is done, `flexor
    /// why JOB` what it waits for. If the successor cannot run the pod stays. What is not named is asked for as
    /// before.
    #[command(
        after_help = "Examples:\n  flexor migrate quickstart ps-0 --cpu 2 --memory 4Gi\n  flexor migrate quickstart quickstart-edljob-worker-0 --memory 2Gi -o json"
    )]
    Migrate(MigrateArgs),
    /// Delete jobs, plans or pods; a pod whose job still wants it is made again
    #[command(after_help = "Examples:\n  flexor delete pod torch-mnist-edljob-worker-1\n  flexor delete -f job.yaml")]
    Delete(DeleteArgs),
    /// Send a signal to the program of a pod, to see what becomes of the job
    #[command(after_help = "Example:\n  flexor kill torch-mnist-edljob-worker-0 --signal TERM")]
    Kill(KillArgs),
    /// List what pods use: processor time over a second, and resident memory
    Top(TopArgs),
    /// Tell why a job is where it is, and why its roles have the size they have
    Why(WhyArgs),
    /// Give manifests to the laptop cluster that runs
    #[command(after_help = "Example:\n  flexor apply -f job.yaml -f plan.yaml")]
    Apply(ApplyArgs),
}

/// Which cluster.
#[derive(Debug, Clone, Args)]
pub struct StateDir {
    /// The folder of the cluster
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// In which namespace of which cluster.
#[derive(Debug, Clone, Args)]
pub struct Place {
    #[command(flatten)]
    pub state_dir: StateDir,
    /// The namespace
    #[arg(short, long, value_name = "NAME", default_value = USUAL_NAMESPACE)]
    pub namespace: DnsLabel,
}

/// In which namespaces of which cluster.
#[derive(Debug, Clone, Args)]
pub struct Places {
    #[command(flatten)]
    pub place: Place,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

impl Places {
    /// The namespace, unless all are meant.
    pub fn namespace(&self) -> Option<&str> {
        (!self.all_namespaces).then(|| self.place.namespace.as_str())
    }
}

/// What `flexor get` takes.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// A kind and names, or KIND/NAME: elasticjobs, scaleplans, trainingjobs, pods, events, configmaps, secrets,
    /// priorityclasses
    #[arg(required = true, value_name = "KIND [NAME]")]
    pub words: Vec<String>,
    /// Only those with such labels: a=b, a!=b, a, !a, a in (b,c), a notin (b,c)
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "")]
    pub selector: Selector,
    #[command(flatten)]
    pub places: Places,
    /// Output format
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// Also tell what changes, until Ctrl-C
    #[arg(short, long)]
    pub watch: bool,
}

/// The format of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// An object or a List for programs
    Json,
    /// The same as YAML
    Yaml,
    /// A table with more columns
    Wide,
    /// KIND/NAME, one in a line
    Name,
}

/// What `flexor describe` takes.
#[derive(Debug, Args)]
pub struct DescribeArgs {
    /// A kind and names, or KIND/NAME
    #[arg(required = true, value_name = "KIND [NAME]")]
    pub words: Vec<String>,
    /// Only those with such labels
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "")]
    pub selector: Selector,
    #[command(flatten)]
    pub places: Places,
}

/// What `flexor logs` takes.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// The pod, by its name or, where only one is meant, by what follows the job in it, such as ps-0
    #[arg(value_name = "POD")]
    pub pod: String,
    /// The container [default: the one that trains]
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Also what comes, from the pod's successors too, until there is none
    #[arg(short, long)]
    pub follow: bool,
    /// Only so many lines from the end
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u64>,
    #[command(flatten)]
    pub place: Place,
}

/// What `flexor events` takes.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only of this job and its pods, or of this pod
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub places: Places,
    /// Output format
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// Also tell what happens, until Ctrl-C
    #[arg(short, long)]
    pub watch: bool,
}

/// What `flexor scale` takes.
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// The job; its kind may stand before it
    #[arg(required = true, num_args = 1..=2, value_name = "JOB")]
    pub words: Vec<String>,
    /// How many replicas
    #[arg(long, value_name = "N", value_parser = replicas, allow_negative_numbers = true)]
    pub replicas: Option<u32>,
    /// Of which role [default: worker]
    #[arg(long, value_name = "ROLE", requires = "replicas")]
    pub role: Option<RoleName>,
    /// How many workers
    #[arg(long, value_name = "N", value_parser = replicas, allow_negative_numbers = true, conflicts_with = "replicas")]
    pub worker: Option<u32>,
    /// How many parameter servers
    #[arg(long, value_name = "N", value_parser = replicas, allow_negative_numbers = true, conflicts_with = "replicas")]
    pub ps: Option<u32>,
    #[command(flatten)]
    pub place: Place,
}

/// What `flexor migrate` takes.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: String,
    /// The pod, by its name or by what follows the job in it, such as ps-0
    #[arg(value_name = "POD")]
    pub pod: String,
    /// How many CPUs its successor asks for, such as 2 or 500m
    #[arg(long, value_name = "CPUS", value_parser = amount)]
    pub cpu: Option<Quantity>,
    /// How much memory its successor asks for, such as 4Gi
    #[arg(long, value_name = "BYTES", value_parser = amount)]
    pub memory: Option<Quantity>,
    /// Output format; JSON is the plan
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: crate::output::Format,
    #[command(flatten)]
    pub place: Place,
}

/// What `flexor delete` takes.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// A kind and names, or KIND/NAME
    #[arg(required_unless_present = "files", value_name = "KIND NAME")]
    pub words: Vec<String>,
    /// Those that these manifests name: a file, a folder, or - for standard input
    #[arg(short, long = "filename", value_name = "FILE", conflicts_with = "words")]
    pub files: Vec<PathBuf>,
    /// What is not there needs no deleting
    #[arg(long)]
    pub ignore_not_found: bool,
    /// Come back once it is gone
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub wait: bool,
    #[command(flatten)]
    pub state_dir: StateDir,
    /// The namespace [default: default]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<DnsLabel>,
}

/// What `flexor kill` takes.
#[derive(Debug, Args)]
pub struct KillArgs {
    /// The pod, by its name or, where only one is meant, by what follows the job in it, such as ps-0
    #[arg(value_name = "POD")]
    pub pod: String,
    /// The container [default: the one that trains]
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// The signal: KILL, SIGTERM, 9, …
    #[arg(short, long, value_name = "SIGNAL", default_value = "KILL", value_parser = signal)]
    pub signal: Signal,
    #[command(flatten)]
    pub place: Place,
}

/// What `flexor top` takes.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Pods, which is all there is
    #[arg(value_name = "KIND", value_parser = ["pods", "pod", "po"], default_value = "pods", hide_possible_values = true)]
    pub kind: String,
    /// Only those with such labels
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "")]
    pub selector: Selector,
    #[command(flatten)]
    pub places: Places,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: crate::output::Format,
}

/// What `flexor why` takes.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The job; its kind may stand before it
    #[arg(required = true, num_args = 1..=2, value_name = "JOB")]
    pub words: Vec<String>,
    #[command(flatten)]
    pub place: Place,
}

/// What `flexor apply` takes.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Manifests: a file, a folder, or - for standard input
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub state_dir: StateDir,
    /// The namespace of what names none [default: default]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<DnsLabel>,
}

impl Verb {
    /// Which cluster it is about.
    pub fn state_dir(&self) -> &StateDir {
        match self {
            Verb::Get(args) => &args.places.place.state_dir,
            Verb::Describe(args) => &args.places.place.state_dir,
            Verb::Logs(args) => &args.place.state_dir,
            Verb::Events(args) => &args.places.place.state_dir,
            Verb::Scale(args) => &args.place.state_dir,
            Verb::Migrate(args) => &args.place.state_dir,
            Verb::Delete(args) => &args.state_dir,
            Verb::Kill(args) => &args.place.state_dir,
            Verb::Top(args) => &args.places.place.state_dir,
            Verb::Why(args) => &args.place.state_dir,
            Verb::Apply(args) => &args.state_dir,
        }
    }
}

/// A number of replicas.
fn replicas(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "write how many there are to be in all, such as 0 or 3".to_owned())
}

/// Some of a resource, more than nothing.
pub fn amount(text: &str) -> Result<Quantity, String> {
    let quantity: Quantity = text.parse().map_err(|error: QuantityError| error.to_string())?;
    if quantity.billionths() <= 0 { Err("there has to be some".to_owned()) } else { Ok(quantity) }
}

/// A signal by its name or number.
fn signal(text: &str) -> Result<Signal, String> {
    let unknown = || format!("there is no signal {text}; write a name such as TERM, or its number");
    if let Ok(number) = text.parse::<i32>() {
        return Signal::try_from(number).map_err(|_| unknown());
    }
    let name = text.to_ascii_uppercase();
    let name = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    name.parse().map_err(|_| unknown())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_known_by_its_names_and_its_number() {
        for text in ["TERM", "term", "SIGTERM", "15"] {
            assert_eq!(signal(text), Ok(Signal::SIGTERM), "{text}");
        }
        for text in ["0", "-9", "99", "NOPE", ""] {
            assert!(signal(text).unwrap_err().contains("there is no signal"), "{text}");
        }
    }
}
