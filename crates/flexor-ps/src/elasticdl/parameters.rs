//! The parameters of one ElasticDL server and the effect of each call, without sockets.
//!
//! One version counts the updates of the whole server, as ElasticDL's workers expect. In asynchronous mode each push is
//! applied on arrival. In synchronous mode pushes are buffered until `grads_to_wait` of them make a step, which
//! averages dense gradients and adds those of rows.

mod declaration;
mod pending_step;

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use flexor_wire::elasticdl as wire;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};

use self::pending_step::PendingStep;
use super::gradients::{DecodedGradients, keys_of};
use super::options::{Mode, Options};
use super::refusal::Refusal;
use super::service::MAX_MESSAGE;
use super::tensor;
use crate::buckets::Buckets;
use crate::hosted::{DenseAnswer, HostedPartitions, Load, ReadMode, SliceRequest};
use crate::layout::Layout;
use crate::partition::{Partition, PushOptions};
use crate::placement::PartitionId;
use crate::push::{AnswerSize, BadRequest, RowKeys};
use crate::spec::{ModelSpec, SpecError};

#[derive(Debug)]
pub struct Parameters {
    options: Options,
    hosted: HostedPartitions,
    /// Pulls and asynchronous pushes hold it for reading. A synchronous step or the capture of a checkpoint holds it
    /// for writing, so that no reader sees half of a step.
    updates: RwLock<()>,
    /// Serialises declarations: each one extends the current model.
    declaration: Mutex<()>,
    is_initialized: AtomicBool,
    version: AtomicI32,
    pending_step: Mutex<PendingStep>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GradientsOutcome {
    /// Applied, or buffered for a step.
    pub accepted: bool,
    /// The server's version after the push.
    pub version: i32,
    /// Whether this push produced this version.
    pub made_version: bool,
}

impl Parameters {
    /// A server with an empty model.
    pub fn new(options: Options) -> Result<Self, SpecError> {
        let (optimizer, seed) = (options.optimizer, options.seed);
        let layout = Layout::new(ModelSpec { variables: Vec::new(), tables: Vec::new(), optimizer, seed })?;
        let hosted = HostedPartitions::new(layout);
        hosted.make(PartitionId::all());
        Ok(Self::with_hosted(options, hosted))
    }

    /// A server that continues from a checkpoint.
    pub(super) fn restored(options: Options, hosted: HostedPartitions, version: i32) -> Self {
        let parameters = Self::with_hosted(options, hosted);
        parameters.version.store(version, Ordering::Release);
        parameters.is_initialized.store(true, Ordering::Release);
        parameters
    }

    fn with_hosted(options: Options, hosted: HostedPartitions) -> Self {
        Self {
            options,
            hosted,
            updates: RwLock::new(()),
            declaration: Mutex::new(()),
            is_initialized: AtomicBool::new(false),
            version: AtomicI32::new(0),
            pending_step: Mutex::default(),
        }
    }

    /// The number of updates so far.
    pub fn version(&self) -> i32 {
        self.version.load(Ordering::Acquire)
    }

    pub fn load(&self) -> Load {
        self.hosted.load()
    }

    /// All variables, unless the worker's version is current.
    pub fn pull_dense(&self, known: i32) -> Result<wire::PullDenseParametersResponse, Refusal> {
        if !self.is_initialized.load(Ordering::Acquire) {
            return Ok(wire::PullDenseParametersResponse::default());
        }
        let _guard = self.updates.read();
        // Read before the values: an update meanwhile makes a later version, and the worker pulls again.
        let version = self.version();
        let mut answer = wire::PullDenseParametersResponse { initialized: true, version, ..Default::default() };
        if known != version {
            let layout = self.hosted.layout();
            for (number, variable) in (0..).zip(&layout.spec().variables) {
                let slices: Vec<_> =
                    layout.slices_of(number).map(|slice| SliceRequest { slice, known: None }).collect();
                let mut values = Vec::with_capacity(variable.elements() as usize);
                self.hosted.pull_dense(&slices, ReadMode::Peek, |_, answer| match answer {
                    DenseAnswer::Modified { weights, .. } => values.extend_from_slice(weights),
                    // All partitions are hosted here, and no version is given as known.
                    DenseAnswer::NotModified | DenseAnswer::NotHere => {}
                })?;
                answer.dense_parameters.insert(variable.name.clone(), tensor::encode(&variable.shape, values));
            }
        }
        self.hosted.count_pull(0);
        Ok(answer)
    }

    /// Rows of a table in the order of the ids. Missing rows are created.
    pub fn pull_rows(&self, name: &str, ids: &[i64]) -> Result<wire::TensorProto, Refusal> {
        let layout = self.hosted.layout();
        let unknown = || Refusal::Unknown(name.to_owned());
        let table = layout.table_named(name).ok_or_else(unknown)?;
        let (Some(hash), Some(dim)) = (layout.name_hash(table), layout.dim(table)) else { return Err(unknown()) };
        AnswerSize::of_rows(ids.len(), dim).check(MAX_MESSAGE)?;
        let keys = keys_of(ids);
        let buckets = Buckets::of(hash, &keys);
        let mut values = Vec::new();
        let _guard = self.updates.read();
        let turned =
            self.hosted.pull(RowKeys { table, keys: &keys, buckets: &buckets }, ReadMode::Train, &mut values)?;
        match turned.into_iter().next() {
            Some(turned) => Err(turned.into()),
            None => {
                self.hosted.count_pull(keys.len());
                Ok(tensor::encode(&[keys.len() as u64, dim as u64], values))
            }
        }
    }

    /// Applies or buffers all gradients of a push, or none.
    pub fn push_gradients(&self, request: &wire::PushGradientsRequest) -> Result<GradientsOutcome, Refusal> {
        if !request.learning_rate.is_finite() {
            return Err(BadRequest::LearningRate(request.learning_rate).into());
        }
        let empty = wire::Model::default();
        let model = request.gradients.as_ref().unwrap_or(&empty);
        let gradients = DecodedGradients::of(&self.hosted.layout(), model)?;
        match self.options.mode {
            Mode::Async { .. } => self.apply(&gradients, model.version, request.learning_rate),
            Mode::Sync { grads_to_wait, .. } => {
                self.buffer(&gradients, model.version, request.learning_rate, grads_to_wait)
            }
        }
    }

    fn apply(&self, gradients: &DecodedGradients, based_on: i32, requested: f32) -> Result<GradientsOutcome, Refusal> {
        let configured = self.options.optimizer.learning_rate();
        let _guard = self.updates.read();
        let rate = self.options.mode.rate(requested, configured, based_on, self.version());
        let parts = gradients.with(rate, |push| {
            let checked = self.hosted.check(push)?;
            Ok(self.hosted.push(&checked, |_| PushOptions::default()))
        })?;
        for (_, part) in parts {
            part?;
        }
        let version = self.version.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        Ok(GradientsOutcome { accepted: true, version, made_version: true })
    }

    /// Blocks all updates while the guard is held. No update is half applied at that moment.
    pub(super) fn lock_updates(&self) -> RwLockWriteGuard<'_, ()> {
        self.updates.write()
    }

    pub(super) fn hosted(&self) -> &HostedPartitions {
        &self.hosted
    }

    /// Returns all partitions in ascending order.
    pub(super) fn into_partitions(self) -> Vec<Partition> {
        PartitionId::all().filter_map(|id| self.hosted.remove(id)).collect()
    }
}
