//! Pulling values from all servers that have some of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flexor_wire::ps::v1 as wire;
use tokio::time::Instant;

use super::map::Route;
use super::{Client, ClientError, KnownSlice, Versions};
use crate::layout::{SliceId, TableId};
use crate::placement::{PARTITIONS, PartitionId};

/// About how many bytes of values one answer has at most.
const ANSWER: u64 = 16 << 20;

/// How long servers may say that a step is not taken while nothing else comes. Its batches are leased when the step before
/// is taken, so that this is long: the servers, and the data with them, may have gone back to a checkpoint.
const STEP_PATIENCE: Duration = Duration::from_secs(2);

/// What values are pulled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullFor {
    /// Training: rows that are not there are made.
    Training,
    /// The same, and it is remembered which versions the values are of: see [`Client::versions`].
    TrainingByVersion,
    /// The same as training, as soon as so many steps are taken.
    Step {
        /// How many.
        taken: u64,
        /// Since all servers last went back together, by the map of this number.
        rewound: u64,
    },
    /// Looking only.
    Looking,
}

/// What has become of a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullOutcome {
    /// Everything has come, however long that took.
    Whole,
    /// Only of a pull for a step: servers say that it is not taken, and what has come is not to be used.
    NoSuchStep,
}

/// What values of one server are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// The model as it moves.
    Now(PullFor),
    /// The server's snapshot of this number.
    Snapshot(u64),
}

/// Rows of one table that have not come yet, by their positions among the keys.
pub(super) struct Missing<'a> {
    table: TableId,
    dim: usize,
    keys: &'a [u64],
    places: Vec<PartitionId>,
    positions: Vec<u32>,
}

/// What one server is asked for.
#[derive(Default)]
pub(super) struct Asked {
    /// By the place of the table among the wanted ones.
    rows: BTreeMap<usize, Vec<u32>>,
    slices: Vec<SliceId>,
}

impl Client {
    /// Pulls rows of tables, and brings all dense variables up to date. `out` gets the rows of each table, in the order of
    /// the keys. Only a step that is not taken is ever given up: what comes slowly comes.
    pub async fn pull(
        &mut self,
        wanted: &[(TableId, &[u64])],
        why: PullFor,
        out: &mut Vec<Vec<f32>>,
    ) -> Result<PullOutcome, ClientError> {
        let mut missing = self.missing(wanted, out)?;
        self.versions.clear();
        let mut slices: Vec<SliceId> = self.layout.slices().collect();
        // Since when servers say that the step is not taken, and nothing comes.
        let mut not_taken: Option<Instant> = None;
        for attempt in 0.. {
            let (began, wanted) = (Instant::now(), count(&missing, &slices));
            let mut is_not_taken = false;
            let route = self.route().await;
            let (asked, nowhere) = self.sort(&route, &missing, &slices);
            let mut left = nowhere;
            let answers = futures::future::join_all(asked.iter().map(|(server, asked)| {
                let op = self.request(&missing, asked, For::Now(why));
                let this = &*self;
                let reached = route.reached(*server);
                async move { this.connection(reached?).await.ok()?.ask(op).await }
            }))
            .await;
            for ((_, asked), answer) in asked.iter().zip(answers) {
                match answer {
                    Some(wire::reply::Result::Pulled(pulled)) => {
                        let elsewhere = self.take(pulled, &missing, asked, out)?;
                        left.merge(asked, &missing, |id| elsewhere.contains(&id));
                        let is_left = |slice: &SliceId| {
                            self.layout.partition_of(*slice).is_some_and(|id| elsewhere.contains(&id))
                        };
                        left.slices.extend(asked.slices.iter().copied().filter(is_left));
                    }
                    Some(wire::reply::Result::Refused(why)) => return Err(ClientError::Refused(why)),
                    Some(wire::reply::Result::Pushed(_) | wire::reply::Result::Lost(_)) => {
                        return Err(ClientError::Nonsense("something else is answered to a pull"));
                    }
                    answer @ (Some(wire::reply::Result::NotYet(_)) | None) => {
                        match NotYet::of(answer, why) {
                            NotYet::Void => return Ok(PullOutcome::NoSuchStep),
                            NotYet::StepNotTaken => is_not_taken = true,
                            NotYet::Soon => {}
                        }
                        left.merge(asked, &missing, |_| true);
                        left.slices.extend(&asked.slices);
                    }
                }
            }
            if left.is_empty() {
                break;
            }
            for (place, missing) in missing.iter_mut().enumerate() {
                missing.positions = left.rows.remove(&place).unwrap_or_default();
            }
            slices = left.slices;
            if count(&missing, &slices) < wanted {
                not_taken = None;
            } else if is_not_taken {
                let since = *not_taken.get_or_insert(began);
                if since.elapsed() >= STEP_PATIENCE {
                    return Ok(PullOutcome::NoSuchStep);
                }
            }
            self.look_again(route.epoch, attempt).await?;
        }
        Ok(PullOutcome::Whole)
    }

    /// The values of a dense variable, as they were last pulled.
    pub fn variable(&self, variable: u32) -> Vec<f32> {
        let mut values = Vec::new();
        for slice in self.layout.slices_of(variable) {
            if let Some(known) = self.slices.get(&slice) {
                values.extend_from_slice(&known.values);
            }
        }
        values
    }

    /// The values of all dense variables, as they were last pulled.
    pub fn variables(&self) -> Vec<Vec<f32>> {
        (0..self.layout.spec().variables.len() as u32).map(|variable| self.variable(variable)).collect()
    }

    /// Which versions the values have that were last pulled by version.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Everything that is wanted is missing at first.
    pub(super) fn missing<'a>(
        &self,
        wanted: &[(TableId, &'a [u64])],
        out: &mut Vec<Vec<f32>>,
    ) -> Result<Vec<Missing<'a>>, ClientError> {
        out.resize_with(wanted.len(), Vec::new);
        let mut missing = Vec::with_capacity(wanted.len());
        for ((table, keys), out) in wanted.iter().zip(out.iter_mut()) {
            let (Some(dim), Some(name)) = (self.layout.dim(*table), self.layout.name_hash(*table)) else {
                return Err(ClientError::Refused(format!("the model has no table number {}", table.0)));
            };
            out.clear();
            out.resize(keys.len() * dim, 0.0);
            let places = keys.iter().map(|key| name.place(*key).partition()).collect();
            missing.push(Missing { table: *table, dim, keys, places, positions: (0..keys.len() as u32).collect() });
        }
        Ok(missing)
    }

    /// Who is to be asked for what, and what nobody can be asked for at present.
    pub(super) fn sort(
        &self,
        route: &Route,
        missing: &[Missing<'_>],
        slices: &[SliceId],
    ) -> (Vec<(usize, Asked)>, Asked) {
        let mut asked: BTreeMap<usize, Asked> = BTreeMap::new();
        let mut nowhere = Asked::default();
        let mut servers = [None; PARTITIONS];
        PartitionId::all().for_each(|id| servers[id.index()] = route.server_of(id));
        for (place, rows) in missing.iter().enumerate() {
            // The last list is for those that nobody has.
            let mut positions = vec![Vec::new(); route.servers() + 1];
            for position in &rows.positions {
                let server = servers[rows.places[*position as usize].index()];
                positions[server.unwrap_or(route.servers())].push(*position);
            }
            let lists = positions.into_iter().enumerate().filter(|(_, positions)| !positions.is_empty());
            for (server, positions) in lists {
                let of = if server < route.servers() { asked.entry(server).or_default() } else { &mut nowhere };
                of.rows.insert(place, positions);
            }
        }
        for slice in slices {
            let server = self.layout.partition_of(*slice).and_then(|id| servers[id.index()]);
            match server {
                Some(server) => asked.entry(server).or_default().slices.push(*slice),
                None => nowhere.slices.push(*slice),
            }
        }
        let messages = asked
            .into_iter()
            .flat_map(|(server, asked)| self.in_pieces(asked, missing).into_iter().map(move |piece| (server, piece)));
        (messages.collect(), nowhere)
    }

    /// Cuts what a server is asked for so that no answer is too large to be sent.
    fn in_pieces(&self, asked: Asked, missing: &[Missing<'_>]) -> Vec<Asked> {
        let rows = asked.rows.iter().map(|(place, positions)| positions.len() * missing[*place].dim);
        let slices = asked.slices.iter().filter_map(|slice| self.layout.elements(*slice));
        if rows.sum::<usize>() as u64 + slices.map(|range| range.end - range.start).sum::<u64>() <= ANSWER / 4 {
            return vec![asked];
        }
        let mut pieces = vec![Asked::default()];
        let mut room = ANSWER;
        let mut next = |bytes: u64, pieces: &mut Vec<Asked>| {
            if room < bytes {
                pieces.push(Asked::default());
                room = ANSWER;
            }
            room = room.saturating_sub(bytes);
            pieces.len() - 1
        };
        for (place, positions) in asked.rows {
            for position in positions {
                let piece = next(missing[place].dim as u64 * 4, &mut pieces);
                pieces[piece].rows.entry(place).or_default().push(position);
            }
        }
        for slice in asked.slices {
            let elements = self.layout.elements(slice).map_or(0, |range| range.end - range.start);
            let piece = next(elements * 4, &mut pieces);
            pieces[piece].slices.push(slice);
        }
        pieces
    }

    pub(super) fn request(&self, missing: &[Missing<'_>], asked: &Asked, why: For) -> wire::request::Op {
        let rows = asked.rows.iter().map(|(place, positions)| {
            let of = &missing[*place];
            wire::Keys { table: of.table.0, keys: keys_at(of.keys, positions) }
        });
        let slices = asked.slices.iter().map(|slice| wire::KnownSlice {
            slice: Some(wire::Slice { variable: slice.variable, index: slice.index }),
            known: self
                .slices
                .get(slice)
                .map(|known| wire::SliceVersion { origin: known.origin, version: known.version }),
        });
        wire::request::Op::Pull(wire::Pull {
            model: self.layout.fingerprint().0,
            rows: rows.collect(),
            slices: slices.collect(),
            peek: why == For::Now(PullFor::Looking),
            at_step: match why {
                For::Now(PullFor::Step { taken, rewound }) => Some(wire::AtStep { steps: taken, rewound }),
                For::Now(_) | For::Snapshot(_) => None,
            },
            snapshot: match why {
                For::Snapshot(number) => Some(number),
                For::Now(_) => None,
            },
            versions: why == For::Now(PullFor::TrainingByVersion),
        })
    }

    /// Takes in what a server has answered; the partitions it does not answer for.
    pub(super) fn take(
        &mut self,
        pulled: wire::Pulled,
        missing: &[Missing<'_>],
        asked: &Asked,
        out: &mut [Vec<f32>],
    ) -> Result<BTreeSet<PartitionId>, ClientError> {
        let elsewhere = pulled.elsewhere.iter().filter_map(|number| PartitionId::of_number(*number));
        let elsewhere: BTreeSet<PartitionId> = elsewhere.collect();
        if pulled.rows.len() != asked.rows.len() {
            return Err(ClientError::Nonsense("not as many tables as were asked for"));
        }
        for ((table, positions), bytes) in asked.rows.iter().zip(&pulled.rows) {
            let of = &missing[*table];
            if bytes.len() != positions.len() * of.dim * 4 {
                return Err(ClientError::Nonsense("not as many rows as were asked for"));
            }
            let rows = bytes.chunks_exact(of.dim * 4);
            for (position, row) in positions.iter().zip(rows) {
                let at = *position as usize;
                if !elsewhere.contains(&of.places[at]) {
                    floats_into(row, &mut out[*table][at * of.dim..][..of.dim]);
                }
            }
        }
        self.versions.take(pulled.versions);
        for slice in pulled.slices {
            let (Some(at), Some(version)) = (slice.slice, slice.version) else {
                return Err(ClientError::Nonsense("a slice without a name"));
            };
            let id = SliceId { variable: at.variable, index: at.index };
            let elements = self.layout.elements(id).map_or(0, |range| range.end - range.start);
            if slice.values.len() as u64 != elements * 4 {
                return Err(ClientError::Nonsense("a slice of another size"));
            }
            let mut values = vec![0.0; elements as usize];
            floats_into(&slice.values, &mut values);
            let (origin, version) = (version.origin, version.version);
            self.slices.insert(id, KnownSlice { origin, version, values: Arc::from(values) });
        }
        Ok(elsewhere)
    }
}

/// Why a server has not answered.
enum NotYet {
    /// It will in a moment, or another one will.
    Soon,
    /// It waits for the step.
    StepNotTaken,
    /// All servers have gone back since: there is no such step any more.
    Void,
}

impl NotYet {
    fn of(answer: Option<wire::reply::Result>, why: PullFor) -> Self {
        let Some(wire::reply::Result::NotYet(wire::NotYet { why: Some(told) })) = answer else { return Self::Soon };
        match (told, why) {
            (wire::not_yet::Why::StepNotTaken(_), _) => Self::StepNotTaken,
            (wire::not_yet::Why::Rewound(known), PullFor::Step { rewound, .. }) if known > rewound => Self::Void,
            (wire::not_yet::Why::Rewound(_) | wire::not_yet::Why::ModelUnknown(_), _) => Self::Soon,
        }
    }
}

impl Asked {
    fn is_empty(&self) -> bool {
        self.rows.values().all(Vec::is_empty) && self.slices.is_empty()
    }

    /// Adds the rows of partitions that were not answered for.
    fn merge(&mut self, asked: &Asked, missing: &[Missing<'_>], is_left: impl Fn(PartitionId) -> bool) {
        for (place, positions) in &asked.rows {
            let places = &missing[*place].places;
            let left = positions.iter().filter(|position| is_left(places[**position as usize]));
            self.rows.entry(*place).or_default().extend(left);
        }
    }
}

/// How many rows and slices have not come.
fn count(missing: &[Missing<'_>], slices: &[SliceId]) -> usize {
    missing.iter().map(|rows| rows.positions.len()).sum::<usize>() + slices.len()
}

pub(super) fn keys_at(keys: &[u64], positions: &[u32]) -> Bytes {
    let mut bytes = vec![0; positions.len() * 8];
    let places = bytes.as_chunks_mut().0;
    places.iter_mut().zip(positions).for_each(|(place, at)| *place = keys[*at as usize].to_le_bytes());
    bytes.into()
}

fn floats_into(bytes: &[u8], out: &mut [f32]) {
    let (chunks, _) = bytes.as_chunks::<4>();
    out.iter_mut().zip(chunks).for_each(|(out, chunk)| *out = f32::from_le_bytes(*chunk));
}
