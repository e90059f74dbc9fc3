//! The parameters of one server, and what each call does to them; without sockets.
//!
//! A version counts updates, as ElasticDL's workers expect it: one for the whole server. Gradients are applied as they
//! come, or gathered until enough pushes have come for a step, which the server then takes by itself: dense gradients
//! are averaged, those of rows added.

mod declaring;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use flexor_wire::elasticdl as wire;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};

use self::waiting::Waiting;
use super::gradients::{Gradients, keys_of};
use super::options::{Mode, Options};
use super::refusal::Refusal;
use super::service::MAX_MESSAGE;
use super::tensor;
use crate::buckets::Buckets;
use crate::hosted::{DenseAnswer, Hosted, KnownSlice, Load, Reading};
use crate::layout::Layout;
use crate::partition::{Partition, Terms};
use crate::placement::PartitionId;
use crate::push::{AnswerSize, BadRequest, Wanted};
use crate::spec::{ModelSpec, SpecError};

/// The parameters of one server.
#[derive(Debug)]
pub struct Parameters {
    options: Options,
    hosted: Hosted,
    /// Held to read by pulls and by pushes that are applied as they come; to write by who takes a step or holds a
    /// moment, so that nobody sees half of one.
    moving: RwLock<()>,
    /// One declaration at a time: each adds to the model that is there.
    declaring: Mutex<()>,
    is_initialized: AtomicBool,
    version: AtomicI32,
    waiting: Mutex<Waiting>,
}

/// What became of gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushOutcome {
    /// Whether they were taken: applied, or kept for a step.
    pub accepted: bool,
    /// The server's version after it.
    pub version: i32,
    /// Whether it was this push that made this version.
    pub made_version: bool,
}

impl Parameters {
    /// A server that nobody has sent anything.
    pub fn new(options: Options) -> Result<Self, SpecError> {
        let (optimizer, seed) = (options.optimizer, options.seed);
        let layout = Layout::new(ModelSpec { variables: Vec::new(), tables: Vec::new(), optimizer, seed })?;
        let hosted = Hosted::new(layout);
        hosted.make(PartitionId::all());
        Ok(Self::around(options, hosted))
    }

    /// A server that goes on from what was kept in files.
    pub(super) fn restored(options: Options, hosted: Hosted, version: i32) -> Self {
        let parameters = Self::around(options, hosted);
        parameters.version.store(version, Ordering::Release);
        parameters.is_initialized.store(true, Ordering::Release);
        parameters
    }

    fn around(options: Options, hosted: Hosted) -> Self {
        Self {
            options,
            hosted,
            moving: RwLock::new(()),
            declaring: Mutex::new(()),
            is_initialized: AtomicBool::new(false),
            version: AtomicI32::new(0),
            waiting: Mutex::default(),
        }
    }

    /// How many updates it has had.
    pub fn version(&self) -> i32 {
        self.version.load(Ordering::Acquire)
    }

    /// What it holds and has done.
    pub fn load(&self) -> Load {
        self.hosted.load()
    }

    /// All variables, unless the worker has this version of them.
    pub fn pull_dense(&self, known: i32) -> Result<wire::PullDenseParametersResponse, Refusal> {
        if !self.is_initialized.load(Ordering::Acquire) {
            return Ok(wire::PullDenseParametersResponse::default());
        }
        let _still = self.moving.read();
        // Before the values: what is applied meanwhile makes a later version, and is asked for again.
        let version = self.version();
        let mut answer = wire::PullDenseParametersResponse { initialized: true, version, ..Default::default() };
        if known != version {
            let layout = self.hosted.layout();
            for (number, variable) in (0..).zip(&layout.spec().variables) {
                let slices: Vec<_> = layout.slices_of(number).map(|slice| KnownSlice { slice, known: None }).collect();
                let mut values = Vec::with_capacity(variable.elements() as usize);
                self.hosted.pull_dense(&slices, Reading::Peek, |_, answer| match answer {
                    DenseAnswer::Modified { weights, .. } => values.extend_from_slice(weights),
                    // All partitions are here, and nothing is said to be known.
                    DenseAnswer::NotModified | DenseAnswer::Elsewhere => {}
                })?;
                answer.dense_parameters.insert(variable.name.clone(), tensor::encode(&variable.shape, values));
            }
        }
        self.hosted.count_pull(0);
        Ok(answer)
    }

    /// Rows of a table, in the order of their ids; those that are not there are made.
    pub fn pull_rows(&self, name: &str, ids: &[i64]) -> Result<wire::TensorProto, Refusal> {
        let layout = self.hosted.layout();
        let unknown = || Refusal::Unknown(name.to_owned());
        let table = layout.table_named(name).ok_or_else(unknown)?;
        let (Some(hash), Some(dim)) = (layout.name_hash(table), layout.dim(table)) else { return Err(unknown()) };
        AnswerSize::of_rows(ids.len(), dim).check(MAX_MESSAGE)?;
        let keys = keys_of(ids);
        let buckets = Buckets::of(hash, &keys);
        let mut values = Vec::new();
        let _still = self.moving.read();
        let turned = self.hosted.pull(Wanted { table, keys: &keys, buckets: &buckets }, Reading::Train, &mut values)?;
        match turned.into_iter().next() {
            Some(turned) => Err(turned.into()),
            None => {
                self.hosted.count_pull(keys.len());
                Ok(tensor::encode(&[keys.len() as u64, dim as u64], values))
            }
        }
    }

    /// Takes gradients: all of them, or none.
    pub fn push_gradients(&self, request: &wire::PushGradientsRequest) -> Result<PushOutcome, Refusal> {
        if !request.learning_rate.is_finite() {
            return Err(BadRequest::LearningRate(request.learning_rate).into());
        }
        let nothing = wire::Model::default();
        let model = request.gradients.as_ref().unwrap_or(&nothing);
        let gradients = Gradients::of(&self.hosted.layout(), model)?;
        match self.options.mode {
            Mode::Async { .. } => self.apply(&gradients, model.version, request.learning_rate),
            Mode::Sync { grads_to_wait, .. } => {
                self.gather(&gradients, model.version, request.learning_rate, grads_to_wait)
            }
        }
    }

    fn apply(&self, gradients: &Gradients, based_on: i32, asked: f32) -> Result<PushOutcome, Refusal> {
        let configured = self.options.optimizer.learning_rate();
        let _still = self.moving.read();
        let rate = self.options.mode.rate(asked, configured, based_on, self.version());
        let parts = gradients.with(rate, |push| {
            let checked = self.hosted.check(push)?;
            Ok(self.hosted.push(&checked, |_| Terms::default()))
        })?;
        for (_, part) in parts {
            part?;
        }
        let version = self.version.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        Ok(PushOutcome { accepted: true, version, made_version: true })
    }

    /// Nothing is applied while this is held, and nothing is half applied.
    pub(super) fn hold_still(&self) -> RwLockWriteGuard<'_, ()> {
        self.moving.write()
    }

    pub(super) fn hosted(&self) -> &Hosted {
        &self.hosted
    }

    /// Gives up its partitions, to be sorted anew.
    pub(super) fn into_partitions(self) -> Vec<Partition> {
        PartitionId::all().filter_map(|id| self.hosted.remove(id)).collect()
    }
}
