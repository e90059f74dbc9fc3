//! Arguments and help texts of the verbs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use flexor_model::{DnsLabel, Quantity, QuantityError, RoleName};
use nix::sys::signal::Signal;

use super::selector::Selector;

/// Namespace of objects that name none.
pub const USUAL_NAMESPACE: &str = "default";

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List jobs, plans, pods or events of the laptop cluster
    #[command(
        after_help = "Examples:\n  flexor get pods\n  flexor get elasticjobs,scaleplans -A\n  flexor get pods -l elasticjob-name=torch-mnist -w\n  flexor get pod torch-mnist-edljob-worker-0 -o yaml"
    )]
    Get(GetArgs),
    /// Show the details of objects and their events
    #[command(after_help = "Examples:\n  flexor describe elasticjob torch-mnist\n  flexor describe pods")]
    Describe(DescribeArgs),
    /// Print the logs of a container
    #[command(after_help = "Example:\n  flexor logs -f torch-mnist-edljob-worker-0 --tail 20")]
    Logs(LogsArgs),
    /// List events of jobs and pods
    #[command(after_help = "Example:\n  flexor events -w")]
    Events(EventsArgs),
    /// Set the number of replicas of a role
    ///
    /// Numbers are totals, not differences. A chief is a role of its own and is not counted as a worker. For a TorchElastic
    /// job this edits the replicas in its manifest, as `kubectl scale` does. For a DLRover job it creates a ScalePlan named
    /// after the job.
    #[command(
        after_help = "Examples:\n  flexor scale torch-mnist --worker 3\n  flexor scale quickstart --worker 3 --ps 2\n  flexor scale elasticjob imagenet --replicas 1"
    )]
    Scale(ScaleArgs),
    /// Move a parameter server or a worker to a pod with other resources
    ///
    /// Creates a ScalePlan named after the job. The pod stays until its successor runs, and a parameter server until it
    /// has handed over its partitions; training continues meanwhile. `flexor get scaleplans` shows when it is done,
    /// `flexor why JOB` shows what it waits for. If the successor cannot run, the pod stays. Resources that are not given
    /// stay as they are.
    #[command(
        after_help = "Examples:\n  flexor migrate quickstart ps-0 --cpu 2 --memory 4Gi\n  flexor migrate quickstart quickstart-edljob-worker-0 --memory 2Gi -o json"
    )]
    Migrate(MigrateArgs),
    /// Delete jobs, plans or pods; the job replaces a deleted pod that it still needs
    #[command(after_help = "Examples:\n  flexor delete pod torch-mnist-edljob-worker-1\n  flexor delete -f job.yaml")]
    Delete(DeleteArgs),
    /// Send a signal to the program of a pod, to see how the job recovers
    #[command(
        after_help = "Examples:\n  flexor kill torch-mnist-edljob-worker-0 --signal TERM\n  flexor kill torch-mnist-edljob-worker-0 -9"
    )]
    Kill(KillArgs),
    /// List the CPU and memory usage of pods: CPU time over one second, and resident memory
    ///
    /// Of a job it also shows the pace, what limits it, and what its pods may use.
    #[command(after_help = "Examples:\n  flexor top\n  flexor top quickstart\n  flexor top quickstart -o json")]
    Top(TopArgs),
    /// Explain the state of a job and the sizes of its roles
    Why(WhyArgs),
    /// Create or change objects of the laptop cluster from manifests
    #[command(after_help = "Example:\n  flexor apply -f job.yaml -f plan.yaml")]
    Apply(ApplyArgs),
}

/// The cluster that a verb talks to.
#[derive(Debug, Clone, Args)]
pub struct StateDirArg {
    /// State directory of the cluster
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// One namespace of a cluster.
#[derive(Debug, Clone, Args)]
pub struct NamespaceArgs {
    #[command(flatten)]
    pub state_dir: StateDirArg,
    /// Namespace
    #[arg(short, long, value_name = "NAME", default_value = USUAL_NAMESPACE)]
    pub namespace: DnsLabel,
}

/// One or all namespaces of a cluster.
#[derive(Debug, Clone, Args)]
pub struct NamespacesArgs {
    #[command(flatten)]
    pub one: NamespaceArgs,
    /// Select all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

impl NamespacesArgs {
    /// The namespace, or `None` for all.
    pub fn namespace(&self) -> Option<&str> {
        (!self.all_namespaces).then(|| self.one.namespace.as_str())
    }
}

/// Arguments of `flexor get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// Kind and names, or KIND/NAME. Kinds are jobs (elasticjobs and trainingjobs), scaleplans, pods, events, configmaps,
    /// secrets and priorityclasses
    #[arg(required = true, value_name = "KIND [NAME]")]
    pub words: Vec<String>,
    /// Select objects by their labels: a=b, a!=b, a, !a, a in (b,c), a notin (b,c)
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "")]
    pub selector: Selector,
    #[command(flatten)]
    pub namespaces: NamespacesArgs,
    /// Output format
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// Then print changes, until Ctrl-C
    #[arg(short, long)]
    pub watch: bool,
}

/// Output format of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// An object or a List as JSON
    Json,
    /// An object or a List as YAML
    Yaml,
    /// A table with more columns
    Wide,
    /// KIND/NAME, one per line
    Name,
}

/// Arguments of `flexor describe`.
#[derive(Debug, Args)]
pub struct DescribeArgs {
    /// Kind and names, or KIND/NAME
    #[arg(required = true, value_name = "KIND [NAME]")]
    pub words: Vec<String>,
    /// Select objects by their labels
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "")]
    pub selector: Selector,
    #[command(flatten)]
    pub namespaces: NamespacesArgs,
}

/// Arguments of `flexor logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Name of the pod; without the job's name where that is unambiguous, such as ps-0
    #[arg(value_name = "POD")]
    pub pod: String,
    /// Container [default: the one that trains]
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Follow the log, also of pods that replace this one, until no pod is left
    #[arg(short, long)]
    pub follow: bool,
    /// Number of lines from the end to print
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u64>,
    #[command(flatten)]
    pub namespace: NamespaceArgs,
}

/// Arguments of `flexor events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Job, with the events of its pods, or pod
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub namespaces: NamespacesArgs,
    /// Output format
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// Then print new events, until Ctrl-C
    #[arg(short, long)]
    pub watch: bool,
}

/// Arguments of `flexor scale`.
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// Job, optionally after its kind
    #[arg(required = true, num_args = 1..=2, value_name = "JOB")]
    pub words: Vec<String>,
    /// Number of replicas
    #[arg(long, value_name = "N", value_parser = replicas, allow_negative_numbers = true)]
    pub replicas: Option<u32>,
    /// Role of these replicas [default: worker]
    #[arg(long, value_name = "ROLE", requires = "replicas")]
    pub role: Option<RoleName>,
    /// Number of workers
    #[arg(long, value_name = "N", value_parser = replicas, allow_negative_numbers = true, conflicts_with = "replicas")]
    pub worker: Option<u32>,
    /// Number of parameter servers
    #[arg(long, value_name = "N", value_parser = replicas, allow_negative_numbers = true, conflicts_with = "replicas")]
    pub ps: Option<u32>,
    /// Leave the size to Flexor again, after it was set by hand
    #[arg(long, conflicts_with_all = ["replicas", "worker", "ps"])]
    pub auto: bool,
    #[command(flatten)]
    pub namespace: NamespaceArgs,
}

/// Arguments of `flexor migrate`.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    /// Job
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Name of the pod, with or without the job's name, such as ps-0
    #[arg(value_name = "POD")]
    pub pod: String,
    /// CPUs that the successor requests, such as 2 or 500m
    #[arg(long, value_name = "CPUS", value_parser = amount)]
    pub cpu: Option<Quantity>,
    /// Memory that the successor requests, such as 4Gi
    #[arg(long, value_name = "BYTES", value_parser = amount)]
    pub memory: Option<Quantity>,
    /// Output format; JSON prints the plan
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: crate::output::Format,
    #[command(flatten)]
    pub namespace: NamespaceArgs,
}

/// Arguments of `flexor delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Kind and names, or KIND/NAME
    #[arg(required_unless_present = "files", value_name = "KIND NAME")]
    pub words: Vec<String>,
    /// Manifests of the objects to delete: a file, a folder, or - for standard input
    #[arg(short, long = "filename", value_name = "FILE", conflicts_with = "words")]
    pub files: Vec<PathBuf>,
    /// Succeed also where an object does not exist
    #[arg(long)]
    pub ignore_not_found: bool,
    /// Wait until the objects are gone
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub wait: bool,
    #[command(flatten)]
    pub state_dir: StateDirArg,
    /// Namespace [default: default]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<DnsLabel>,
}

/// Arguments of `flexor kill`.
#[derive(Debug, Args)]
pub struct KillArgs {
    /// Name of the pod; without the job's name where that is unambiguous, such as ps-0
    #[arg(value_name = "POD")]
    pub pod: String,
    /// Container [default: the one that trains]
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Signal: KILL, SIGTERM, 9, …
    #[arg(short, long, value_name = "SIGNAL", default_value = "KILL", value_parser = signal)]
    pub signal: Signal,
    #[command(flatten)]
    pub namespace: NamespaceArgs,
}

/// Arguments of `flexor top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Job, optionally after its kind; without it, or with `pods`, the pods of all jobs
    #[arg(num_args = 0..=2, value_name = "JOB")]
    pub words: Vec<String>,
    /// Select objects by their labels
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "")]
    pub selector: Selector,
    #[command(flatten)]
    pub namespaces: NamespacesArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: crate::output::Format,
}

/// Arguments of `flexor why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Job, optionally after its kind
    #[arg(required = true, num_args = 1..=2, value_name = "JOB")]
    pub words: Vec<String>,
    #[command(flatten)]
    pub namespace: NamespaceArgs,
}

/// Arguments of `flexor apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Manifests: files, folders, or - for standard input
    #[arg(required_unless_present = "named_files", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The same, as kubectl takes them
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub named_files: Vec<PathBuf>,
    #[command(flatten)]
    pub state_dir: StateDirArg,
    /// Namespace of objects that name none [default: default]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<DnsLabel>,
}

impl Verb {
    /// The state directory of the cluster that the verb talks to.
    pub fn state_dir(&self) -> &StateDirArg {
        match self {
            Verb::Get(args) => &args.namespaces.one.state_dir,
            Verb::Describe(args) => &args.namespaces.one.state_dir,
            Verb::Logs(args) => &args.namespace.state_dir,
            Verb::Events(args) => &args.namespaces.one.state_dir,
            Verb::Scale(args) => &args.namespace.state_dir,
            Verb::Migrate(args) => &args.namespace.state_dir,
            Verb::Delete(args) => &args.state_dir,
            Verb::Kill(args) => &args.namespace.state_dir,
            Verb::Top(args) => &args.namespaces.one.state_dir,
            Verb::Why(args) => &args.namespace.state_dir,
            Verb::Apply(args) => &args.state_dir,
        }
    }
}

fn replicas(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "write the total number of replicas, such as 0 or 3".to_owned())
}

/// Parses a positive amount of a resource.
pub fn amount(text: &str) -> Result<Quantity, String> {
    let quantity: Quantity = text.parse().map_err(|error: QuantityError| error.to_string())?;
    if quantity.billionths() <= 0 { Err("the amount must be greater than 0".to_owned()) } else { Ok(quantity) }
}

/// Parses the name or the number of a signal.
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
