//! Pushing the gradients of a batch to all servers that keep something of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::pushed_part::Outcome;

use super::map::{Reached, Route};
use super::pull::keys_at;
use super::{Client, ClientError, Versions};
use crate::batch::BatchId;
use crate::layout::{SliceId, TableId};
use crate::little_endian::put_floats;
use crate::placement::{PARTITIONS, PartitionId, SLICE_ELEMENTS};
use crate::push::NonFinite;

/// About how many bytes of gradients one message has at most, where its parts are no larger.
const MESSAGE: usize = 16 << 20;
/// How long an answer may take to arrive that was given before others answered for something of the push.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// The gradients of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Gradients<'a> {
    /// The batch.
    pub batch: BatchId,
    /// The learning rate; 0 for the model's own.
    pub learning_rate: f32,
    /// They wait for the step that the batch belongs to: of the steps since all servers went back by the map of this
    /// number. None: each is applied as it comes.
    pub in_step: Option<u64>,
    /// What becomes of those that are not finite.
    pub non_finite: NonFinite,
    /// Of rows: table, keys, and a row of gradients for each key.
    pub rows: &'a [(TableId, &'a [u64], &'a [f32])],
    /// Of dense variables, whole: the variable's place in the model, and a gradient for each element.
    pub variables: &'a [(u32, &'a [f32])],
}

/// What has become of a push, counted in parts: one for each partition that something was for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushOutcome {
    /// Applied by this push.
    pub taken: u32,
    /// Applied by an earlier push of the same batch, by whomever.
    pub taken_before: u32,
    /// The batch was acknowledged by somebody else.
    pub too_late: u32,
}

/// What a push consists of, with where each part of it is.
struct Sorted<'a> {
    rows: Vec<SortedRows<'a>>,
    slices: Vec<(SliceId, PartitionId, &'a [f32])>,
}

struct SortedRows<'a> {
    table: TableId,
    keys: &'a [u64],
    gradients: &'a [f32],
    dim: usize,
    places: Vec<PartitionId>,
}

impl Client {
    /// Pushes gradients; done when every part of them was applied, once.
    pub async fn push(&mut self, gradients: &Gradients<'_>) -> Result<PushOutcome, ClientError> {
        self.push_since(gradients, &Versions::default()).await
    }

    /// The same, for gradients that were computed with values of these versions: where others have changed a partition
    /// since, the step is the smaller the more of them there were.
    pub async fn push_since(
        &mut self,
        gradients: &Gradients<'_>,
        versions: &Versions,
    ) -> Result<PushOutcome, ClientError> {
        let sorted = self.sorted(gradients)?;
        let mut left = sorted.partitions();
        let mut outcome = PushOutcome::default();
        for attempt in 0.. {
            let route = self.route().await;
            let mut servers: BTreeMap<usize, BTreeSet<PartitionId>> = BTreeMap::new();
            for id in &left {
                if let Some(server) = route.server_of(*id) {
                    servers.entry(server).or_default().insert(*id);
                }
            }
            let messages: Vec<(usize, BTreeSet<PartitionId>)> = servers
                .into_iter()
                .flat_map(|(server, parts)| sorted.in_pieces(parts).into_iter().map(move |piece| (server, piece)))
                .collect();
            let answers = futures::future::join_all(messages.iter().map(|(server, parts)| {
                let based_on = versions.of(parts).collect();
                let op = wire::request::Op::Push(wire::Push { based_on, ..self.part_of(gradients, &sorted, parts) });
                let this = &*self;
                let reached = route.reached(*server);
                async move {
                    let connection = this.connection(reached?).await.ok()?;
                    tokio::select! {
                        answer = connection.ask(op) => answer,
                        () = this.overtaken(reached?, parts) => None,
                    }
                }
            }))
            .await;
            for ((_, parts), answer) in messages.iter().zip(answers) {
                match answer {
                    Some(wire::reply::Result::Pushed(pushed)) => {
                        let mut unanswered = parts.clone();
                        for part in pushed.parts {
                            let Some(id) = PartitionId::of_number(part.partition) else {
                                return Err(ClientError::Nonsense("no such partition"));
                            };
                            if matches!(part.outcome(), Outcome::Taken | Outcome::TakenBefore) {
                                self.answered.take(id, part.origin, part.version);
                            }
                            unanswered.remove(&id);
                            outcome.count(part.outcome(), left.remove(&id), || left.insert(id));
                        }
                        if !unanswered.is_empty() {
                            return Err(ClientError::Nonsense("a part of a push is not answered"));
                        }
                    }
                    Some(wire::reply::Result::Refused(why)) => return Err(ClientError::Refused(why)),
                    Some(wire::reply::Result::Pulled(_) | wire::reply::Result::Lost(_)) => {
                        return Err(ClientError::Nonsense("something else is answered to a push"));
                    }
                    // Nobody knows what became of it; a part that was applied is not applied again.
                    Some(wire::reply::Result::NotYet(_)) | None => {}
                }
            }
            if left.is_empty() {
                return Ok(outcome);
            }
            self.look_again(route.epoch, attempt).await?;
        }
        Ok(outcome)
    }

    /// Waits until a map says that others answer for some of what a server was sent, and then for as long as its answer may
    /// be on its way. One that the master does not reach any more answers nobody: it waits to hear what has become of it.
    async fn overtaken(&self, server: &Reached, parts: &BTreeSet<PartitionId>) {
        let is_anothers = |route: &Route| {
            let mut owners = parts.iter().filter_map(|id| route.owner_of(*id));
            owners.any(|owner| owner.server != server.server)
        };
        let mut map = self.map.clone();
        if map.wait_for(|route| is_anothers(route)).await.is_err() {
            // The follower lives as long as the client.
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(ON_ITS_WAY).await;
    }

    fn sorted<'a>(&self, gradients: &Gradients<'a>) -> Result<Sorted<'a>, ClientError> {
        let mut rows = Vec::with_capacity(gradients.rows.len());
        for (table, keys, values) in gradients.rows {
            let (Some(dim), Some(name)) = (self.layout.dim(*table), self.layout.name_hash(*table)) else {
                return Err(ClientError::Refused(format!("the model has no table number {}", table.0)));
            };
            if keys.len() * dim != values.len() {
                return Err(ClientError::Refused(format!(
                    "{} keys need {} values, not {}",
                    keys.len(),
                    keys.len() * dim,
                    values.len()
                )));
            }
            let places = keys.iter().map(|key| name.place(*key).partition()).collect();
            rows.push(SortedRows { table: *table, keys, gradients: values, dim, places });
        }
        let mut slices = Vec::new();
        for (variable, values) in gradients.variables {
            let Some(of) = self.layout.spec().variables.get(*variable as usize) else {
                return Err(ClientError::Refused(format!("the model has no variable number {variable}")));
            };
            if of.elements() != values.len() as u64 {
                let (name, elements, has) = (&of.name, of.elements(), values.len());
                let why = format!("variable '{name}' has {elements} elements, and its gradient {has}");
                return Err(ClientError::Refused(why));
            }
            for (slice, values) in self.layout.slices_of(*variable).zip(values.chunks(SLICE_ELEMENTS as usize)) {
                let place = self.layout.partition_of(slice).ok_or(ClientError::Nonsense("a slice without a place"))?;
                slices.push((slice, place, values));
            }
        }
        Ok(Sorted { rows, slices })
    }

    /// What one server is sent: what is for these partitions.
    fn part_of(&self, gradients: &Gradients<'_>, sorted: &Sorted<'_>, parts: &BTreeSet<PartitionId>) -> wire::Push {
        let mut wanted = [false; PARTITIONS];
        parts.iter().for_each(|id| wanted[id.index()] = true);
        let rows = sorted.rows.iter().filter_map(|rows| {
            let positions: Vec<u32> =
                (0..).zip(&rows.places).filter(|(_, id)| wanted[id.index()]).map(|(at, _)| at).collect();
            let values = |at: &u32| &rows.gradients[*at as usize * rows.dim..][..rows.dim];
            (!positions.is_empty()).then(|| wire::RowGradients {
                table: rows.table.0,
                keys: keys_at(rows.keys, &positions),
                gradients: floats(positions.len() * rows.dim, positions.iter().map(values)),
            })
        });
        let slices = sorted.slices.iter().filter(|(_, id, _)| wanted[id.index()]);
        let slices = slices.map(|(slice, _, values)| wire::SliceGradient {
            slice: Some(wire::Slice { variable: slice.variable, index: slice.index }),
            offset: 0,
            gradient: floats(values.len(), std::iter::once(*values)),
        });
        let BatchId { dataset, epoch, first, len } = gradients.batch;
        wire::Push {
            model: self.layout.fingerprint().0,
            batch: Some(wire::Batch { dataset, epoch, first, records: len }),
            learning_rate: gradients.learning_rate,
            rows: rows.collect(),
            slices: slices.collect(),
            rewound: gradients.in_step,
            leave_out: gradients.non_finite == NonFinite::LeaveOut,
            based_on: Vec::new(),
        }
    }
}

impl Sorted<'_> {
    /// Cuts what a server is sent so that no message is too large; the part of a partition stays whole.
    fn in_pieces(&self, parts: BTreeSet<PartitionId>) -> Vec<BTreeSet<PartitionId>> {
        let mut bytes = [0_usize; PARTITIONS];
        for rows in &self.rows {
            rows.places.iter().for_each(|id| bytes[id.index()] += rows.dim * 4 + 8);
        }
        self.slices.iter().for_each(|(_, id, values)| bytes[id.index()] += values.len() * 4);
        let mut pieces = vec![BTreeSet::new()];
        let mut room = MESSAGE;
        for id in parts {
            let needs = bytes[id.index()];
            if room < needs && pieces.last().is_some_and(|piece| !piece.is_empty()) {
                pieces.push(BTreeSet::new());
                room = MESSAGE;
            }
            room = room.saturating_sub(needs);
            if let Some(piece) = pieces.last_mut() {
                piece.insert(id);
            }
        }
        pieces
    }

    fn partitions(&self) -> BTreeSet<PartitionId> {
        let mut has = [false; PARTITIONS];
        self.rows.iter().flat_map(|rows| &rows.places).for_each(|id| has[id.index()] = true);
        self.slices.iter().for_each(|(_, id, _)| has[id.index()] = true);
        PartitionId::all().filter(|id| has[id.index()]).collect()
    }
}

impl PushOutcome {
    /// Counts a part that was awaited, or puts it back where it was not taken.
    fn count(&mut self, outcome: Outcome, awaited: bool, put_back: impl FnOnce() -> bool) {
        match outcome {
            _ if !awaited => {}
            Outcome::Taken => self.taken += 1,
            Outcome::TakenBefore => self.taken_before += 1,
            Outcome::TooLate => self.too_late += 1,
            Outcome::Elsewhere | Outcome::Unspecified => {
                put_back();
            }
        }
    }
}

fn floats<'a>(count: usize, rows: impl Iterator<Item = &'a [f32]>) -> Bytes {
    let mut bytes = Vec::with_capacity(count * 4);
    rows.for_each(|row| put_floats(&mut bytes, row));
    bytes.into()
}
