//! The options of a command that makes a job, read and checked.
//!
//! [`parse`](crate::elasticdl::parse) makes values of this type. A change by hand must keep the rules of
//! [`super::rules`].

use super::rules;
use crate::elasticdl::{
    command_line::{CommandName, Given},
    options::{DataOptions, IgnoredOptions, ModelOptions, OptionSpec, PodOptions, SubmissionOptions, TrainingOptions},
};

/// All options of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOptions {
    pub kind: JobKind,
    /// The model and the names in its module.
    pub model: ModelOptions,
    /// Data in and out.
    pub data: DataOptions,
    pub training: TrainingOptions,
    pub pods: PodOptions,
    /// Submitting and logging.
    pub submission: SubmissionOptions,
    /// Accepted without effect.
    pub ignored: IgnoredOptions,
}

/// The kind of job, by the command that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// `elasticdl train`
    Train,
    /// `elasticdl evaluate`
    Evaluate,
    /// `elasticdl predict`
    Predict,
}

/// The loop that the workers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobType {
    /// Only training.
    TrainingOnly,
    /// Training, with evaluations in between.
    TrainingWithEvaluation,
    /// Only an evaluation.
    EvaluationOnly,
    /// Only predictions.
    PredictionOnly,
}

impl JobKind {
    /// The command that makes it.
    pub fn command(self) -> CommandName {
        match self {
            Self::Train => CommandName::Train,
            Self::Evaluate => CommandName::Evaluate,
            Self::Predict => CommandName::Predict,
        }
    }
}

impl JobOptions {
    /// The rows of all its options.
    pub(in crate::elasticdl) const SPECS: &'static [&'static [OptionSpec]] = &[
        &ModelOptions::SPECS,
        &DataOptions::SPECS,
        &TrainingOptions::SPECS,
        &PodOptions::SPECS,
        &SubmissionOptions::SPECS,
        &IgnoredOptions::SPECS,
    ];

    /// The loop of its workers, which follows from its data.
    pub fn job_type(&self) -> JobType {
        let trains = !self.data.training_data.is_empty();
        let evaluates = !self.data.validation_data.is_empty();
        let in_between = self.training.evaluation_steps > 0 || self.training.evaluation_throttle_secs > 0;
        if self.kind == JobKind::Predict {
            return JobType::PredictionOnly;
        }
        match (trains, evaluates) {
            (true, true) if in_between => JobType::TrainingWithEvaluation,
            (false, true) => JobType::EvaluationOnly,
            (true, _) | (false, false) => JobType::TrainingOnly,
        }
    }

    /// The options of a command line; none where something in it is wrong.
    pub(in crate::elasticdl) fn read(kind: JobKind, given: &mut Given) -> Option<Self> {
        let model = ModelOptions::read(given);
        let data = DataOptions::read(given);
        let training = TrainingOptions::read(given);
        let mut pods = PodOptions::read(given);
        let submission = SubmissionOptions::read(given);
        let ignored = IgnoredOptions::read(given);
        // Groups are checked one by one, so that a mistake in one hides none in another.
        if let Some(data) = &data {
            rules::data(kind, data, given);
        }
        let training = training.map(|training| rules::training(training, data.as_ref(), given));
        if let Some(pods) = &mut pods {
            rules::pods(pods, given);
        }
        let (mut training, mut pods) = (training?, pods?);
        rules::strategy(&mut training, &mut pods, given);
        let options =
            Self { kind, model: model?, data: data?, training, pods, submission: submission?, ignored: ignored? };
        rules::names(&options, given);
        Some(options)
    }

    /// Adds every option that is not at its default.
    pub(in crate::elasticdl) fn write(&self, args: &mut Vec<String>) {
        self.model.write(args);
        self.data.write(args);
        self.training.write(args);
        self.pods.write(args);
        self.submission.write(args);
        self.ignored.write(args);
    }
}
