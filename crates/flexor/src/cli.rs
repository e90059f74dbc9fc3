//! The command tree: what can be typed. What it means stands in one module per command.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, error::ErrorKind};
use clap_complete::Shell;
use flexor_master::NodeRange;
use flexor_model::{JobName, Quantity, env, ports};

use crate::checkpoint;
use crate::predict;
use crate::{
    completions, crd, data, env as environment,
    exit::{self, Exit},
    launch, local, master,
    output::Format,
    run, sidecar, validate, verbs, version,
};

/// Elastic, fault-tolerant deep-learning training in one binary.
#[derive(Debug, Parser)]
#[command(name = "flexor", version, max_term_width = 100, after_help = exit::HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Every command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run jobs on this machine: their manifests as processes, under the controller that runs them on Kubernetes
    Run(RunArgs),
    /// Keep a laptop cluster in the background, for jobs that come and go
    #[command(subcommand)]
    Local(local::LocalCommand),
    /// What another terminal asks of jobs that run.
    #[command(flatten)]
    Verb(verbs::Verb),
    /// Say what a manifest means, or what is wrong with it
    ///
    /// Reads manifests of DLRover (ElasticJob, ScalePlan), TorchElastic (ElasticJob) and PaddlePaddle EDL
    /// (TrainingJob), and prints for each the dialect, the job it describes (roles, replicas, ranges, resources) and
    /// everything that is wrong or without effect, with its line. Nothing is sent anywhere and no cluster is needed.
    ///
    /// Documents of other kinds (Deployment, Role, PriorityClass, …) are listed as skipped. The exit code is 1 if a
    /// document is refused or an input cannot be read, and with --strict also if there is a warning. The summary goes
    /// to standard error.
    #[command(
        after_help = "Examples:\n  flexor validate job.yaml\n  flexor validate --strict manifests/\n  kustomize build . | flexor validate -\n  flexor validate -o json job.yaml | jq '.summary'"
    )]
    Validate(ValidateArgs),
    /// Make data sets, convert data files, look into them
    #[command(subcommand)]
    Data(data::DataCommand),
    /// Say what a trained model makes of records, out of a checkpoint
    ///
    /// The file has a line for each record: its number, its label as the data has it, and how likely the model takes a
    /// yes, or which class it takes it for.
    #[command(
        after_help = "Examples:\n  flexor predict --model deepfm --checkpoints checkpoints --data quickstart-test.csv --out predicted.csv"
    )]
    Predict(predict::PredictArgs),
    /// Look at checkpoints of parameters, and take a model out of one
    #[command(subcommand)]
    Checkpoint(checkpoint::CheckpointCommand),
    /// Print the custom resource definitions that a cluster needs
    ///
    /// With both kinds called elasticjobs installed, `kubectl get elasticjob` means DLRover's; write
    /// elasticjobs.elastic.pytorch.org for TorchElastic's, or use the short names (dej, dsp, tej, tj).
    #[command(after_help = "Examples:\n  flexor crd | kubectl apply -f -\n  flexor crd --dialect torchelastic")]
    Crd(CrdArgs),
    /// Serve one job: the rendezvous of its nodes, their keys, and what people want to know
    ///
    /// Stock torchrun meets at the TCPStore port (see `flexor env torchrun`), directly or through a `flexor sidecar` in
    /// its pod. A node that is lost is noticed at once, those that are left go on in seconds, and nothing that dies and
    /// comes back, this master included, makes two worlds of one. With --state every decision is written down, and a
    /// master that is started again goes on where the last one was.
    ///
    /// Prints one line when it serves; logs to standard error. http://HTTP/metrics, /live and /ready are open;
    /// http://GRPC/api/status and /api/events want the job's token, if there is one.
    #[command(
        after_help = "Examples:\n  flexor master --job mnist --nnodes 2:4 --state ./mnist-state\n  flexor master --job mnist --nnodes 2:4 --grpc 0.0.0.0:50001 --store 0.0.0.0:29400 --token-file token\n  curl localhost:50001/api/status"
    )]
    Master(MasterArgs),
    /// Keep a part of a job's parameters: dense variables and rows of embedding tables
    ///
    /// Runs in the pods of a job's parameter servers. The master says which partitions are whose; servers may come and
    /// go while training goes on. Ends when the master does not want it any more.
    ///
    /// With --elasticdl it stands in for a server of ElasticDL's, for that system's released workers, without a master.
    #[command(
        after_help = "Examples:\n  flexor ps --master 127.0.0.1:50001 --name ps-0 --listen 127.0.0.1:0\n  flexor ps --elasticdl --ps-id 0 --num-ps-pods 2 --listen 127.0.0.1:2222 --use-async --opt-type SGD --opt-args 'learning_rate=0.1;momentum=0.0;nesterov=False'"
    )]
    Ps(crate::ps::PsArgs),
    /// Train a built-in model with the job's parameter servers, without Python
    ///
    /// Runs in the pods of a job's workers. Leases batches from the master, computes gradients, and pushes them to the
    /// servers. Every record is gone through once in an epoch and every update applied once, whatever dies.
    #[command(
        after_help = "Example:\n  flexor data gen clicks --out clicks.csv\n  flexor worker --master 127.0.0.1:50001 --name worker-0 --model deepfm --data clicks.csv"
    )]
    Worker(crate::worker::WorkerArgs),
    /// Start the processes of one node of an elastic job, with torchrun's command line
    ///
    /// `flexor launch --help` tells the options.
    #[command(disable_help_flag = true, override_usage = "flexor launch [OPTIONS] PROGRAM [ARGUMENTS]...")]
    Launch {
        /// torchrun's options, the program, and what belongs to it
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
        words: Vec<OsString>,
    },
    /// Keep the store connections of one pod alive while the master restarts or moves
    ///
    /// Stock torchrun dies when its TCPStore connection closes. A sidecar gives it an address inside the pod that stays:
    /// it passes requests on to the master, keeps those that are not answered, dials again for ever when the master is
    /// lost, and takes up where it was. Programs see a pause and nothing else. When the program closes its connection
    /// the master is told at once.
    ///
    /// Point torchrun at it with `flexor env torchrun` (its rendezvous must not be the host: is_host=false). TCPStore
    /// has no authentication, so listen on loopback. Prints one line when it listens; logs to standard error. SIGTERM
    /// tells the master that the pod's connections are closed and ends with 0. When the master has replaced the pod it
    /// closes everything and ends with 1.
    #[command(
        after_help = "Examples:\n  flexor sidecar --upstream mnist-master:50001 --token-file /etc/flexor/token\n  flexor sidecar --listen 127.0.0.1:0 --upstream 127.0.0.1:50001 -o json"
    )]
    Sidecar(SidecarArgs),
    /// Print the environment that a foreign program needs to meet at a master
    #[command(subcommand)]
    Env(EnvCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example, for bash:\n  source <(flexor completions bash)")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the version
    Version {
        /// Output format
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
}

/// What `flexor validate` takes.
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

/// What `flexor run` takes.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Manifests: files, folders, or - for standard input
    #[arg(required_unless_present = "resume", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Go on with the jobs of a `flexor run` that was killed, and with their pods that still run
    #[arg(long)]
    pub resume: bool,
    /// Do harm to the jobs while they run, to see them survive: SEED, SEED,RATE or @FILE
    ///
    /// A seed stands for a list of acts: pods, masters and sidecars are killed, stopped and deleted, disks are full or
    /// slow and clocks jump, RATE times a second on average (0.2 where none is given). The list is written to chaos.json;
    /// `--chaos @chaos.json` does the same again.
    #[arg(long, value_name = "SEED", conflicts_with = "resume")]
    pub chaos: Option<run::ChaosArg>,
    /// Write how it went into a folder: a picture, tables, JSON, and the logs of the pods
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Print lines on a terminal too, and no picture
    #[arg(long)]
    pub no_view: bool,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// How a laptop cluster is run, in the foreground or in the background.
#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    /// The folder of the cluster
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// End all pods when the cluster ends, however it ends
    #[arg(long)]
    pub ephemeral: bool,
    /// Give out only so many CPUs: pods wait for room, and the more important take that of others
    #[arg(long, value_name = "N", value_parser = verbs::amount)]
    pub cpus: Option<Quantity>,
    /// How memory limits are kept: by the best means there is, or by looking at processes
    #[arg(long, value_name = "MEANS", value_enum, default_value = "auto", hide = true)]
    pub limits: Limits,
}

/// By which means memory limits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Limits {
    /// Control groups where they can be made
    Auto,
    /// What processes have is looked at ten times a second
    Watch,
}

/// What `flexor crd` takes.
#[derive(Debug, Args)]
pub struct CrdArgs {
    /// Only the definitions of one dialect
    #[arg(long, value_parser = crd::dialects())]
    pub dialect: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: CrdFormat,
}

/// The format of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CrdFormat {
    /// Documents for kubectl
    Yaml,
    /// A List object for kubectl
    Json,
}

/// What `flexor master` takes.
#[derive(Debug, Args)]
pub struct MasterArgs {
    /// The name of the job; for torchrun also its --rdzv-id, unless that says otherwise
    #[arg(long, value_name = "NAME")]
    pub job: JobName,
    /// What tells this job from others of the same name; its journal belongs to it [default: the name]
    #[arg(long, value_name = "UID")]
    pub uid: Option<String>,
    /// How many nodes a world may have: MIN:MAX, or N
    ///
    /// Where it is not known how many will come, a first world of fewer than MAX waits for --last-call. Tell it with
    /// `curl -d '{"nodes":3}' -H content-type:application/json localhost:50001/api/expected`.
    #[arg(long, value_name = "MIN:MAX")]
    pub nnodes: NodeRange,
    /// A world's size is a multiple of this
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub node_unit: u32,
    /// How many times the program may fail before the run is closed; losing nodes is free
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub max_restarts: u32,
    /// How long a first world waits for more nodes than it needs, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub last_call: u64,
    /// Where to serve gRPC and /api
    #[arg(long, value_name = "ADDRESS", default_value_t = local(ports::MASTER))]
    pub grpc: SocketAddr,
    /// Where to serve TCPStore. It has no authentication: let only the job's pods reach it
    #[arg(long, value_name = "ADDRESS", default_value_t = local(ports::STORE))]
    pub store: SocketAddr,
    /// Where to serve /live, /ready and /metrics
    #[arg(long, value_name = "ADDRESS", default_value_t = local(ports::HTTP))]
    pub http: SocketAddr,
    /// The folder for the journal; made if it is missing
    #[arg(long, value_name = "DIR", env = env::STATE.name)]
    pub state: Option<PathBuf>,
    /// A file with the job's token, which every call of ours must then carry
    #[arg(long, value_name = "FILE", env = env::TOKEN_FILE.name)]
    pub token_file: Option<PathBuf>,
    /// On how many parameter servers each partition is kept: with 2 none of its updates is lost with a server
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2))]
    pub ps_replication_factor: u32,
    /// A folder for checkpoints of the parameters, which all parameter servers reach; without it there are none
    #[arg(long, value_name = "DIR")]
    pub checkpoint_folder: Option<String>,
    /// How much time lies between two checkpoints, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub checkpoint_every: u32,
    /// How many checkpoints are kept; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub checkpoint_keep: u32,
    /// Serve a plain TCPStore, as torch's own server does: no rendezvous is understood, no node is looked after
    #[arg(long)]
    pub plain_store: bool,
    /// Format of the line that is printed when the master serves
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// What `flexor sidecar` takes.
#[derive(Debug, Args)]
pub struct SidecarArgs {
    /// Where to serve TCPStore to the programs of this pod; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value_t = local(ports::STORE))]
    pub listen: SocketAddr,
    /// The gRPC port of the job's master; the name is looked up again for every dial
    #[arg(long, value_name = "HOST:PORT")]
    pub upstream: String,
    /// A file with the job's token; read again for every dial
    #[arg(long, value_name = "FILE", env = env::TOKEN_FILE.name)]
    pub token_file: Option<PathBuf>,
    /// The name of this pod [default: the host's name]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub pod: Option<String>,
    /// The UID of this pod
    #[arg(long, value_name = "UID", env = "POD_UID")]
    pub pod_uid: Option<String>,
    /// Format of the line that is printed when the sidecar listens
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// Whose environment `flexor env` prints.
#[derive(Debug, Subcommand)]
pub enum EnvCommand {
    /// The variables that make stock torchrun meet at a master
    ///
    /// torchrun reads PET_* where its command line says nothing, so the command itself stays as it is. An own
    /// --rdzv-conf or --max-restarts on the command line replaces what is set here: leave them out.
    #[command(
        after_help = "Example:\n  eval \"$(flexor env torchrun --nnodes 2:4 --id mnist --endpoint 127.0.0.1:29400)\"\n  torchrun train.py"
    )]
    Torchrun(TorchrunEnvArgs),
}

/// What `flexor env torchrun` takes.
#[derive(Debug, Args)]
pub struct TorchrunEnvArgs {
    /// How many nodes, as torchrun's --nnodes: MIN:MAX or N
    #[arg(long, value_name = "NODES")]
    pub nnodes: String,
    /// The run, as torchrun's --rdzv-id; the name of the master's job
    #[arg(long, value_name = "ID")]
    pub id: String,
    /// The TCPStore port of the master, or of the sidecar in the pod
    #[arg(long, value_name = "HOST:PORT", default_value_t = format!("127.0.0.1:{}", ports::STORE))]
    pub endpoint: String,
    /// Output format
    #[arg(short, long, value_enum, default_value = "shell")]
    pub output: EnvFormat,
}

/// The format of variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EnvFormat {
    /// Lines for a shell to read
    Shell,
    /// An object for programs
    Json,
}

/// A port of this machine that nobody else reaches.
fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

impl Cli {
    /// What was typed to start this process. Ends the process if that was wrong usage, or asked for help.
    pub fn of_this_process() -> Self {
        let words: Vec<OsString> = std::env::args_os().collect();
        // The launcher explains itself.
        let cli = match &words[..] {
            [program, help, launch] if help == "help" && launch == "launch" => {
                Self::parse_from([program.clone(), launch.clone(), "--help".into()])
            }
            _ => Self::parsed(verbs::behind_the_verb(words)),
        };
        cli.command.check().unwrap_or_else(|error| error.exit());
        cli
    }

    fn parsed(words: Vec<OsString>) -> Self {
        let is_of_a_job = words.get(1).is_some_and(|word| word == "worker" || word == "ps");
        Self::try_parse_from(words).unwrap_or_else(|error| {
            if is_of_a_job && error.use_stderr() {
                // Whoever has started it gives it the same words when it tries again.
                let _ = error.print();
                std::process::exit(Exit::Hopeless.code().into());
            }
            error.exit()
        })
    }
}

impl Command {
    /// What the types cannot express about the arguments.
    fn check(&self) -> Result<(), clap::Error> {
        let Command::Validate(args) = self else { return Ok(()) };
        if args.files.iter().filter(|file| validate::is_standard_input(file)).count() > 1 {
            return Err(wrong_usage("validate", "standard input (-) can be read only once"));
        }
        Ok(())
    }

    /// Does it.
    pub fn run(self) -> anyhow::Result<Exit> {
        match self {
            Command::Validate(args) => validate::run(&args),
            Command::Crd(args) => crd::run(&args),
            Command::Data(command) => data::run(&command),
            Command::Predict(args) => predict::run(&args),
            Command::Checkpoint(command) => checkpoint::run(&command),
            Command::Master(args) => master::run(&args),
            Command::Ps(args) => crate::ps::run(&args),
            Command::Worker(args) => crate::worker::run(&args),
            Command::Run(args) => run::run(&args),
            Command::Local(command) => local::run(&command),
            Command::Verb(verb) => verbs::run(verb),
            Command::Launch { words } => launch::run(&words),
            Command::Sidecar(args) => sidecar::run(args),
            Command::Env(EnvCommand::Torchrun(args)) => environment::torchrun(&args),
            Command::Completions { shell } => completions::run(shell),
            Command::Version { output } => version::run(output),
        }
    }
}

/// The whole tree, for completions and the reference page.
pub fn command() -> clap::Command {
    // The launcher reads its words itself, from a table of its own.
    Cli::command().mut_subcommands(|command| match command.get_name() {
        "launch" => launch::document(command),
        _ => command,
    })
}

/// An error of clap's own making, with the usage of the command.
fn wrong_usage(name: &str, message: &str) -> clap::Error {
    let mut program = command();
    program.build();
    let mut command = program.find_subcommand(name).cloned().unwrap_or(program);
    command.error(ErrorKind::ArgumentConflict, message)
}
