//! The commands of `elasticdl`, and how each is written.

use crate::elasticdl::{
    job::JobOptions,
    options::{OptionSpec, ZooBuildOptions, ZooInitOptions},
};

/// The name of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandName {
    /// `elasticdl zoo init`
    ZooInit,
    /// `elasticdl zoo build`
    ZooBuild,
    /// `elasticdl zoo push`
    ZooPush,
    /// `elasticdl train`
    Train,
    /// `elasticdl evaluate`
    Evaluate,
    /// `elasticdl predict`
    Predict,
}

/// A command line that has been understood.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Write a Dockerfile for a model zoo.
    ZooInit(ZooInitOptions),
    /// Build the image of a model zoo.
    ZooBuild {
        /// The folder that is built.
        path: String,
        /// What the image is called.
        image: String,
    },
    /// Push the image of a model zoo.
    ZooPush {
        /// What the image is called.
        image: String,
    },
    /// Train a model.
    Train(JobOptions),
    /// Measure a trained model.
    Evaluate(JobOptions),
    /// Let a trained model predict.
    Predict(JobOptions),
    /// Explain one command, or all of them.
    Help(Option<CommandName>),
}

impl CommandName {
    /// Every command, in the order of the help text.
    pub const ALL: &'static [Self] =
        &[Self::ZooInit, Self::ZooBuild, Self::ZooPush, Self::Train, Self::Evaluate, Self::Predict];

    /// The words that call it.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Self::ZooInit => &["zoo", "init"],
            Self::ZooBuild => &["zoo", "build"],
            Self::ZooPush => &["zoo", "push"],
            Self::Train => &["train"],
            Self::Evaluate => &["evaluate"],
            Self::Predict => &["predict"],
        }
    }

    /// What it does, in one line.
    pub fn summary(self) -> &'static str {
        match self {
            Self::ZooInit => "Write a Dockerfile for the model zoo in the current directory",
            Self::ZooBuild => "Build the image of a model zoo",
            Self::ZooPush => "Push the image of a model zoo to its registry",
            Self::Train => "Submit a training job",
            Self::Evaluate => "Submit an evaluation job",
            Self::Predict => "Submit a prediction job",
        }
    }

    /// What it takes besides options, in order.
    pub fn positionals(self) -> &'static [&'static str] {
        match self {
            Self::ZooBuild => &["path"],
            Self::ZooPush => &["image"],
            Self::ZooInit | Self::Train | Self::Evaluate | Self::Predict => &[],
        }
    }

    /// The options it has, in the order of the help text.
    pub fn options(self) -> impl Iterator<Item = &'static OptionSpec> {
        let groups: &'static [&'static [OptionSpec]] = match self {
            Self::ZooInit => &[&ZooInitOptions::SPECS],
            Self::ZooBuild => &[&ZooBuildOptions::SPECS],
            Self::ZooPush => &[],
            Self::Train | Self::Evaluate | Self::Predict => JobOptions::SPECS,
        };
        groups.iter().copied().flatten().filter(move |spec| spec.commands.contains(&self))
    }
}

impl std::fmt::Display for CommandName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "elasticdl {}", self.words().join(" "))
    }
}

impl Command {
    /// The arguments that give this command again when they are parsed.
    ///
    /// Options at their default are left out; values stand behind `=`, so that they may begin with a dash or be empty.
    pub fn to_args(&self) -> Vec<String> {
        match self {
            Self::ZooInit(options) => written(CommandName::ZooInit, |args| options.write(args)),
            Self::ZooBuild { path, image } => written(CommandName::ZooBuild, |args| {
                ZooBuildOptions { image: image.clone() }.write(args);
                args.extend(["--".to_owned(), path.clone()]);
            }),
            Self::ZooPush { image } => written(CommandName::ZooPush, |args| {
                args.extend(["--".to_owned(), image.clone()]);
            }),
            Self::Train(options) | Self::Evaluate(options) | Self::Predict(options) => {
                written(options.kind.command(), |args| options.write(args))
            }
            Self::Help(None) => vec!["--help".to_owned()],
            Self::Help(Some(command)) => written(*command, |args| args.push("--help".to_owned())),
        }
    }
}

fn written(command: CommandName, options: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
    let mut args = command.words().iter().map(|&word| word.to_owned()).collect();
    options(&mut args);
    args
}
