//! The command tree: commands, options and help texts. Each command is carried out by a module of its own.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, error::ErrorKind};
use clap_complete::Shell;
use flexor_master::NodeRange;
use flexor_model::{JobName, LONGEST_SECONDS, Quantity, env, ports};

use crate::checkpoint;
use crate::predict;
use crate::{
    completions, crd, data, env as environment,
    exit::{self, Exit},
    experiment, launch, local, master, operator,
    output::Format,
    paddle, run, sidecar, sim, validate, verbs, version,
};

/// Elastic, fault-tolerant deep-learning training in one binary.
#[derive(Debug, Parser)]
#[command(name = "flexor", version, max_term_width = 100, after_help = exit::HELP)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// Every command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run jobs from manifests on this machine: pods are processes, and no cluster is needed
    Run(RunArgs),
    /// Start, stop and inspect a laptop cluster that runs in the background
    #[command(subcommand)]
    Local(local::LocalCommand),
    /// Commands for jobs of a running laptop cluster.
    #[command(flatten)]
    Verb(verbs::Verb),
    /// Check manifests and show the jobs that they describe
    ///
    /// Reads manifests of DLRover (ElasticJob, ScalePlan), TorchElastic (ElasticJob) and PaddlePaddle EDL
    /// (TrainingJob). Prints for each the dialect, the job it describes (roles, replicas, ranges, resources), and
    /// every error and every field without effect, with its line. Nothing is sent anywhere and no cluster is needed.
    ///
    /// Documents of other kinds (Deployment, Role, PriorityClass, …) are listed as skipped. The exit code is 1 if a
    /// document is refused or an input cannot be read, and with --strict also if there is a warning. The summary goes
    /// to standard error.
    #[command(
        after_help = "Examples:\n  flexor validate job.yaml\n  flexor validate --strict manifests/\n  kustomize build . | flexor validate -\n  flexor validate -o json job.yaml | jq '.summary'"
    )]
    Validate(ValidateArgs),
    /// Generate, convert and inspect data files
    #[command(subcommand)]
    Data(data::DataCommand),
    /// Predict the labels of records with a model from a checkpoint
    ///
    /// Writes a line for each record: its number, its label in the data, and the predicted probability of label 1 or
    /// the predicted class.
    #[command(
        after_help = "Examples:\n  flexor predict --model deepfm --checkpoints checkpoints --data quickstart-test.csv --out predicted.csv"
    )]
    Predict(predict::PredictArgs),
    /// List, verify, export and convert checkpoints of parameters
    #[command(subcommand)]
    Checkpoint(checkpoint::CheckpointCommand),
    /// Print the custom resource definitions that a cluster needs
    ///
    /// With both kinds called elasticjobs installed, `kubectl get elasticjob` means DLRover's; write
    /// elasticjobs.elastic.pytorch.org for TorchElastic's, or use the short names (dej, dsp, tej, tj).
    #[command(after_help = "Examples:\n  flexor crd | kubectl apply -f -\n  flexor crd --dialect torchelastic")]
    Crd(CrdArgs),
    /// Run the master of one job: its rendezvous, its key-value store, and its status for people
    ///
    /// Stock torchrun meets at the TCPStore port (see `flexor env torchrun`), directly or through a `flexor sidecar` in
    /// its pod. The master notices a lost node at once, and the remaining nodes continue within seconds. Restarts, also
    /// of the master itself, never split a world in two. With --state the master writes every decision to a journal, and
    /// a restarted master continues from it.
    ///
    /// Prints one line when it is ready; logs to standard error. http://HTTP/metrics, /live and /ready need no token;
    /// http://GRPC/api/status and /api/events need the job's token, if there is one.
    #[command(
        after_help = "Examples:\n  flexor master --job mnist --nnodes 2:4 --state ./mnist-state\n  flexor master --job mnist --nnodes 2:4 --grpc 0.0.0.0:50001 --store 0.0.0.0:29400 --token-file token\n  curl localhost:50001/api/status"
    )]
    Master(MasterArgs),
    /// Run the controller of a Kubernetes cluster: it creates the pods of jobs and replaces the lost ones
    ///
    /// Serves every kind that the cluster has and its account may watch: ElasticJob and ScalePlan of DLRover, ElasticJob
    /// of TorchElastic, TrainingJob of PaddlePaddle EDL. `kubectl apply -k deploy/default` installs the kinds, the
    /// account and a deployment that runs this command.
    ///
    /// Connects as a pod does, or as KUBECONFIG says. Logs one line for each decision to standard error.
    #[command(
        after_help = "Examples:\n  kubectl apply -k deploy/default\n  KUBECONFIG=~/.kube/config flexor operator --image registry.example/flexor:1"
    )]
    Operator(operator::OperatorArgs),
    /// Run a parameter server of a job: it keeps dense variables and rows of embedding tables
    ///
    /// Runs in the pods of a job's parameter servers. The master assigns partitions to servers; servers may join and
    /// leave during training. The server exits when the master no longer needs it.
    ///
    /// With --elasticdl it replaces one server of ElasticDL, for that system's released workers, without a master.
    #[command(
        after_help = "Examples:\n  flexor ps --master 127.0.0.1:50001 --name ps-0 --listen 127.0.0.1:0\n  flexor ps --elasticdl --ps-id 0 --num-ps-pods 2 --listen 127.0.0.1:2222 --use-async --opt-type SGD --opt-args 'learning_rate=0.1;momentum=0.0;nesterov=False'"
    )]
    Ps(crate::ps::PsArgs),
    /// Train a built-in model with the job's parameter servers, without Python
    ///
    /// Runs in the pods of a job's workers. Leases batches from the master, computes gradients, and pushes them to the
    /// servers. Every record counts once in an epoch and every update is applied once, whichever process is lost.
    #[command(
        after_help = "Example:\n  flexor data gen clicks --out clicks.csv\n  flexor worker --master 127.0.0.1:50001 --name worker-0 --model deepfm --data clicks.csv"
    )]
    Worker(crate::worker::WorkerArgs),
    /// Start the processes of one node of an elastic job, with torchrun's command line
    ///
    /// `flexor launch --help` lists the options.
    #[command(disable_help_flag = true, override_usage = "flexor launch [OPTIONS] PROGRAM [ARGUMENTS]...")]
    Launch {
        /// torchrun's options, the program, and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARG")]
        words: Vec<OsString>,
    },
    /// Keep the store connections of one pod alive while the master restarts or moves
    ///
    /// Stock torchrun exits when its TCPStore connection closes. A sidecar gives it a stable address inside the pod. It
    /// forwards requests to the master and keeps those without an answer. While the master is lost it reconnects until it
    /// succeeds, and sends them again. Programs only see a pause. When a program closes its connection, the sidecar
    /// notifies the master at once.
    ///
    /// Point torchrun at it with `flexor env torchrun` (its rendezvous must not be the host: is_host=false). TCPStore
    /// has no authentication, so listen on loopback. Prints one line when it listens; logs to standard error. On SIGTERM
    /// it notifies the master that the pod's connections are closed and exits with 0. When the master has replaced the
    /// pod, it closes all connections and exits with 1.
    #[command(
        after_help = "Examples:\n  flexor sidecar --upstream mnist-master:50001 --token-file /etc/flexor/token\n  flexor sidecar --listen 127.0.0.1:0 --upstream 127.0.0.1:50001 -o json"
    )]
    Sidecar(SidecarArgs),
    /// Print environment variables that connect another launcher to a master
    #[command(subcommand)]
    Env(EnvCommand),
    /// Repeat EDL's published experiments on a model of a cluster, and compare policies
    ///
    /// Jobs share a cluster under four policies: fixed sizes, EDL's autoscaler of 2017, the same with pod priority, and
    /// Flexor's planner. The model is the one that reproduces the published runs: its scheduler, nodes and delays. A run
    /// goes second by second without chance, so the same command prints the same figures everywhere.
    ///
    /// PENDING is the mean time from submission to the first running trainer; ENDED counts trainers that were ended
    /// before their job was; JAIN is 1 if all jobs have equally many trainers; ATTAINMENT is the part of the wanted Nginx
    /// pods that ran.
    #[command(
        after_help = "Examples:\n  flexor sim case1\n  flexor sim case2 --grace 30 --report case2\n  flexor sim tutorial -o json"
    )]
    Sim(sim::SimArgs),
    /// Run the programs of EDL's autoscaling experiment on a cluster
    #[command(subcommand)]
    Experiment(experiment::ExperimentCommand),
    /// Submit, list and delete PaddlePaddle's jobs on a Kubernetes cluster, with paddlecloud's command line
    ///
    /// Flags are Go's: -jobname mnist1, -jobname=mnist1, or the same with two dashes. The program may also be called by a
    /// symbolic link named paddlecloud. The cluster is that of kubectl.
    #[command(subcommand)]
    Paddlecloud(paddle::PaddlecloudCommand),
    /// Submit PaddlePaddle's jobs to a Kubernetes cluster, with paddlectl's command line
    ///
    /// As `flexor paddlecloud`; the symbolic link is named paddlectl.
    #[command(subcommand)]
    Paddlectl(paddle::PaddlectlCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example, for bash:\n  source <(flexor completions bash)")]
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Print the version
    Version {
        /// Output format
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
}

/// Arguments of `flexor validate`.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Files, folders (searched for .yaml, .yml and .json), or - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Treat warnings as failures
    #[arg(long)]
    pub strict: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// Arguments of `flexor run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Manifests: files, folders, or - for standard input
    #[arg(required_unless_present_any = ["resume", "named_files"], value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The same, as `flexor apply` takes them
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub named_files: Vec<PathBuf>,
    /// Resume the jobs of a `flexor run` that was killed, with their pods that still run
    #[arg(long)]
    pub resume: bool,
    /// Inject faults while the jobs run, to see them recover: SEED, SEED,RATE or @FILE
    ///
    /// A seed determines a list of faults: pods, masters and sidecars are killed, stopped and deleted, disks are full or
    /// slow, and clocks jump, RATE times a second on average [default: 0.2]. The list is written to chaos.json;
    /// `--chaos @chaos.json` injects the same faults again.
    #[arg(long, value_name = "SEED", conflicts_with = "resume")]
    pub chaos: Option<run::ChaosArg>,
    /// Write a report into a folder: a picture, tables, JSON, and the logs of the pods
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Print plain lines instead of the live view, also on a terminal
    #[arg(long)]
    pub no_view: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Options of a laptop cluster, in the foreground or in the background.
#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    /// State directory of the cluster
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// End all pods when the cluster ends, even if it is killed
    #[arg(long)]
    pub ephemeral: bool,
    /// Number of CPUs to schedule pods on; pods wait for free CPUs, and higher priorities preempt lower ones
    #[arg(long, value_name = "N", value_parser = verbs::amount)]
    pub cpus: Option<Quantity>,
    /// Let masters start whose journal has lost acknowledged facts; events and the report count what is open again
    #[arg(long)]
    pub accept_journal_loss: bool,
    /// Enforcement of memory limits
    #[arg(long, value_name = "MODE", value_enum, default_value = "auto", hide = true)]
    pub limits: Limits,
}

/// Enforcement of memory limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Limits {
    /// Control groups where they can be created, else watching
    Auto,
    /// Check the memory of processes ten times a second
    Watch,
}

/// Arguments of `flexor crd`.
#[derive(Debug, Args)]
pub struct CrdArgs {
    /// Print only the definitions of one dialect
    #[arg(long, value_parser = crd::dialects())]
    pub dialect: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: CrdFormat,
}

/// Output format of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CrdFormat {
    /// Documents for kubectl
    Yaml,
    /// A List object for kubectl
    Json,
}

/// Arguments of `flexor master`.
#[derive(Debug, Args)]
pub struct MasterArgs {
    /// Name of the job; for torchrun also its --rdzv-id, unless that names another run
    #[arg(long, value_name = "NAME")]
    pub job: JobName,
    /// UID that tells this job from others of the same name; the journal belongs to it [default: the name]
    #[arg(long, value_name = "UID")]
    pub uid: Option<String>,
    /// Number of nodes in a world: MIN:MAX, or N
    ///
    /// While the number of expected nodes is unknown, a first world of fewer than MAX waits for --last-call. Set it with
    /// `curl -d '{"nodes":3}' -H content-type:application/json localhost:50001/api/expected`.
    #[arg(long, value_name = "MIN:MAX")]
    pub nnodes: NodeRange,
    /// Number that the size of a world is a multiple of
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub node_unit: u32,
    /// Number of program failures before the run is closed; lost nodes do not count
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub max_restarts: u32,
    /// Time in which a first world of at least MIN nodes waits for more
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(..=LONGEST_SECONDS))]
    pub last_call: u64,
    /// Address to serve gRPC and /api on
    #[arg(long, value_name = "ADDRESS", default_value_t = local(ports::MASTER))]
    pub grpc: SocketAddr,
    /// Address to serve TCPStore on. It has no authentication: let only the job's pods reach it
    #[arg(long, value_name = "ADDRESS", default_value_t = local(ports::STORE))]
    pub store: SocketAddr,
    /// Address to serve /live, /ready and /metrics on
    #[arg(long, value_name = "ADDRESS", default_value_t = local(ports::HTTP))]
    pub http: SocketAddr,
    /// Folder of the journal; created if it is missing
    #[arg(long, value_name = "DIR", env = env::STATE.name)]
    pub state: Option<PathBuf>,
    /// Start also if the journal has lost acknowledged facts: keep the damaged file, and count what is open again
    #[arg(long, env = env::ACCEPT_JOURNAL_LOSS.name)]
    pub accept_journal_loss: bool,
    /// File with the job's token, which every gRPC and /api request must then carry
    #[arg(long, value_name = "FILE", env = env::TOKEN_FILE.name)]
    pub token_file: Option<PathBuf>,
    /// Name under which clients call /api, such as a service's, besides the address of --grpc; may be repeated
    ///
    /// Requests that change something are refused under other names, because a page in a browser may have sent them.
    #[arg(long, value_name = "HOST")]
    pub allowed_host: Vec<String>,
    /// Number of parameter servers that keep each partition: with 2, losing one server loses no update
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2))]
    pub ps_replication_factor: u32,
    /// Folder for checkpoints of the parameters, reachable for all parameter servers [default: no checkpoints]
    #[arg(long, value_name = "DIR")]
    pub checkpoint_folder: Option<String>,
    /// Time between two checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub checkpoint_every: u32,
    /// Number of checkpoints to keep; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub checkpoint_keep: u32,
    /// Serve a plain TCPStore, as torch's own server does: without rendezvous and without supervision of nodes
    #[arg(long)]
    pub plain_store: bool,
    /// Format of the line that is printed when the master is ready
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// Arguments of `flexor sidecar`.
#[derive(Debug, Args)]
pub struct SidecarArgs {
    /// Address to serve TCPStore on for the programs of this pod; port 0 takes a free one. Repeat it to serve several
    #[arg(long, value_name = "ADDRESS", default_values_t = [local(ports::STORE)])]
    pub listen: Vec<SocketAddr>,
    /// gRPC address of the job's master; the name is resolved again for every connection
    #[arg(long, value_name = "HOST:PORT")]
    pub upstream: String,
    /// File with the job's token; read again for every connection
    #[arg(long, value_name = "FILE", env = env::TOKEN_FILE.name)]
    pub token_file: Option<PathBuf>,
    /// Name of this pod [default: the host's name]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub pod: Option<String>,
    /// UID of this pod
    #[arg(long, value_name = "UID", env = "POD_UID")]
    pub pod_uid: Option<String>,
    /// File in which the pod's program leaves its error; read when the sidecar is stopped, after the program has ended
    #[arg(long, value_name = "FILE", requires = "message_file")]
    pub error_file: Option<PathBuf>,
    /// File to write that error to, on one line: the container's termination message on Kubernetes
    #[arg(long, value_name = "FILE", requires = "error_file")]
    pub message_file: Option<PathBuf>,
    /// Format of the line that is printed when the sidecar listens
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// Launchers that `flexor env` prints variables for.
#[derive(Debug, Subcommand)]
pub enum EnvCommand {
    /// Print the variables that connect stock torchrun to a master
    ///
    /// torchrun reads PET_* for every option that its command line does not set, so the command itself stays unchanged.
    /// Do not pass --rdzv-conf or --max-restarts on the command line: they replace the values set here.
    #[command(
        after_help = "Example:\n  eval \"$(flexor env torchrun --nnodes 2:4 --id mnist --endpoint 127.0.0.1:29400)\"\n  torchrun train.py"
    )]
    Torchrun(TorchrunEnvArgs),
}

/// Arguments of `flexor env torchrun`.
#[derive(Debug, Args)]
pub struct TorchrunEnvArgs {
    /// Number of nodes, as torchrun's --nnodes: MIN:MAX or N
    #[arg(long, value_name = "MIN:MAX")]
    pub nnodes: String,
    /// ID of the run, as torchrun's --rdzv-id; the name of the master's job
    #[arg(long, value_name = "ID")]
    pub id: String,
    /// TCPStore address of the master, or of the sidecar in the pod
    #[arg(long, value_name = "HOST:PORT", default_value_t = format!("127.0.0.1:{}", ports::STORE))]
    pub endpoint: String,
    /// Output format
    #[arg(short, long, value_enum, default_value = "shell")]
    pub output: EnvFormat,
}

/// Output format of variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EnvFormat {
    /// Export statements for a shell
    Shell,
    /// A JSON object for programs
    Json,
}

/// A loopback address, unreachable for other machines.
fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

impl Cli {
    /// Parses the arguments of this process. Exits on wrong usage and after printing help.
    pub fn of_this_process() -> Self {
        let words: Vec<OsString> = paddle::go_flags::spelled_out(std::env::args_os().collect(), command);
        // The launcher prints its own help.
        let cli = match &words[..] {
            [program, help, launch] if help == "help" && launch == "launch" => {
                Self::parse_from([program.clone(), launch.clone(), "--help".into()])
            }
            _ => Self::parsed(verbs::spelled_out(verbs::behind_the_verb(words))),
        };
        cli.command.check().unwrap_or_else(|error| error.exit());
        cli
    }

    fn parsed(words: Vec<OsString>) -> Self {
        let is_of_a_job = words.get(1).is_some_and(|word| word == "worker" || word == "ps");
        Self::try_parse_from(words).unwrap_or_else(|error| {
            if is_of_a_job && error.use_stderr() {
                // A restarted pod would get the same arguments, so trying again cannot help.
                let _ = error.print();
                std::process::exit(Exit::Hopeless.code().into());
            }
            error.exit()
        })
    }
}

impl Command {
    /// Checks what the types of the arguments cannot express.
    fn check(&self) -> Result<(), clap::Error> {
        let Command::Validate(args) = self else { return Ok(()) };
        if args.files.iter().filter(|file| validate::is_standard_input(file)).count() > 1 {
            return Err(wrong_usage("validate", "standard input (-) can be read only once"));
        }
        Ok(())
    }

    pub fn run(self) -> anyhow::Result<Exit> {
        match self {
            Command::Validate(args) => validate::run(&args),
            Command::Crd(args) => crd::run(&args),
            Command::Data(command) => data::run(&command),
            Command::Predict(args) => predict::run(&args),
            Command::Checkpoint(command) => checkpoint::run(&command),
            Command::Master(args) => master::run(&args),
            Command::Operator(args) => operator::run(&args),
            Command::Ps(args) => crate::ps::run(&args),
            Command::Worker(args) => crate::worker::run(&args),
            Command::Run(args) => run::run(&args),
            Command::Local(command) => local::run(&command),
            Command::Verb(verb) => verbs::run(verb),
            Command::Launch { words } => launch::run(&words),
            Command::Sidecar(args) => sidecar::run(args),
            Command::Sim(args) => sim::run(&args),
            Command::Experiment(command) => experiment::run(&command),
            Command::Paddlecloud(command) => paddle::run_paddlecloud(&command),
            Command::Paddlectl(command) => paddle::run_paddlectl(&command),
            Command::Env(EnvCommand::Torchrun(args)) => environment::torchrun(&args),
            Command::Completions { shell } => completions::run(shell),
            Command::Version { output } => version::run(output),
        }
    }
}

/// The complete command tree, for completions and the reference page.
pub fn command() -> clap::Command {
    // The launcher parses its arguments itself, from its own table of options.
    Cli::command().mut_subcommands(|command| match command.get_name() {
        "launch" => launch::document(command),
        _ => command,
    })
}

/// A usage error in clap's format, with the usage of the command.
fn wrong_usage(name: &str, message: &str) -> clap::Error {
    let mut program = command();
    program.build();
    let mut command = program.find_subcommand(name).cloned().unwrap_or(program);
    command.error(ErrorKind::ArgumentConflict, message)
}
