//! Encodes facts and snapshots as journal records, and decodes them into the store, the data ledger and the PS
//! membership.

use std::sync::Arc;

use bytes::Bytes;
use flexor_engine::ledger;
use flexor_engine::ps_membership::{self, PsMembership};
use flexor_engine::rendezvous::Rendezvous;
use flexor_store::keyspace::{Change, Mutation};
use flexor_store::rendezvous_store::{OperationRecord, RunId, StoreFact};
use flexor_store::service::Outbox;
use flexor_wire::journal::v1 as wire;
use prost::Message;
use serde::Serialize;
use thiserror::Error;

use crate::data::{JournaledData, SkippedRecords};
use crate::job_state::JobState;

/// A record with a good checksum that this version cannot decode.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The bytes are no record.
    #[error("a record of the journal cannot be read: {0}")]
    Wire(#[from] prost::DecodeError),
    /// The record holds a fact that this version does not know.
    #[error("a decision in the journal cannot be read, was it written by a newer flexor? {0}")]
    Decision(#[from] serde_json::Error),
}

/// One decoded fact.
#[derive(Debug, PartialEq)]
pub enum JournalFact {
    Store(StoreFact),
    Data(ledger::Fact),
    /// The counts of skipped records so far; they replace earlier counts.
    SkippedRecords(SkippedRecords),
    Servers(ps_membership::Fact),
}

/// Encodes facts of the data as one record, with the skipped records if their counts changed.
pub fn encode_data(facts: &[ledger::Fact], skipped_records: Option<&SkippedRecords>) -> Vec<u8> {
    record(data_kinds(facts, skipped_records))
}

/// Encodes facts of the PS membership as one record.
pub fn encode_servers(facts: &[ps_membership::Fact]) -> Vec<u8> {
    record(server_kinds(facts))
}

/// Encodes facts of the PS membership and of the data as one record: both happen, or neither.
pub fn encode_both(
    servers: &[ps_membership::Fact],
    data: &[ledger::Fact],
    skipped_records: Option<&SkippedRecords>,
) -> Vec<u8> {
    record(server_kinds(servers).chain(data_kinds(data, skipped_records)))
}

/// Encodes facts of the store as one record.
pub fn encode(facts: &[StoreFact]) -> Vec<u8> {
    record(facts.iter().map(kind_of))
}

/// Decodes the facts of a record.
pub fn decode(record: &[u8]) -> Result<Vec<JournalFact>, RecordError> {
    let record = wire::Record::decode(record)?;
    record.facts.into_iter().filter_map(|fact| fact.kind).map(fact_of).collect()
}

/// Encodes the complete state as one record.
pub fn snapshot(store: &JobState, data: &JournaledData, servers: &PsMembership) -> Vec<u8> {
    let machine = |(run, machine): (&RunId, &Rendezvous)| wire::Machine { run: run.to_string(), state: json(machine) };
    wire::Snapshot {
        keys: store.keyspace().snapshot().into_iter().map(key_of).collect(),
        machines: store.machines().map(machine).collect(),
        operations: store.operations().map(operation_of).collect(),
        seq: store.keyspace().last_seq(),
        ledger: json(&data.ledger),
        servers: json(servers),
        skipped_records: json(&data.skipped_records),
    }
    .encode_to_vec()
}

/// Restores the store, the data and the PS membership from a snapshot.
pub fn restore(
    store: &mut JobState,
    data: &mut JournaledData,
    servers: &mut PsMembership,
    snapshot: &[u8],
) -> Result<(), RecordError> {
    let snapshot = wire::Snapshot::decode(snapshot)?;
    // The known runs distinguish a key of a round from the state of a run.
    for machine in snapshot.machines {
        store.restore_run(machine.run.into(), serde_json::from_slice(&machine.state)?);
    }
    for key in snapshot.keys {
        store.replay(StoreFact::Key(mutation_of(key)));
    }
    for operation in snapshot.operations {
        store.replay(StoreFact::Operation(origin_of(operation)));
    }
    store.keyspace_mut().skip_to(snapshot.seq);
    store.settle(std::time::Duration::ZERO, &mut Outbox::default());
    if !snapshot.ledger.is_empty() {
        data.ledger = serde_json::from_slice(&snapshot.ledger)?;
    }
    if !snapshot.skipped_records.is_empty() {
        data.skipped_records = serde_json::from_slice(&snapshot.skipped_records)?;
    }
    if !snapshot.servers.is_empty() {
        *servers = serde_json::from_slice(&snapshot.servers)?;
    }
    Ok(())
}

fn record(kinds: impl Iterator<Item = wire::fact::Kind>) -> Vec<u8> {
    wire::Record { facts: kinds.map(|kind| wire::Fact { kind: Some(kind) }).collect() }.encode_to_vec()
}

fn data_kinds(
    facts: &[ledger::Fact],
    skipped_records: Option<&SkippedRecords>,
) -> impl Iterator<Item = wire::fact::Kind> {
    let facts = facts.iter().map(|fact| wire::fact::Kind::Ledger(wire::Ledger { fact: json(fact) }));
    facts.chain(
        skipped_records.map(|counts| wire::fact::Kind::SkippedRecords(wire::SkippedRecords { counts: json(counts) })),
    )
}

fn server_kinds(facts: &[ps_membership::Fact]) -> impl Iterator<Item = wire::fact::Kind> {
    facts.iter().map(|fact| wire::fact::Kind::Servers(wire::Servers { fact: json(fact) }))
}

/// A fact or a state as JSON.
fn json(state: &impl Serialize) -> Bytes {
    serde_json::to_vec(state).expect("facts and states are plain data with string keys").into()
}

fn kind_of(fact: &StoreFact) -> wire::fact::Kind {
    match fact {
        StoreFact::Key(mutation) => wire::fact::Kind::Key(key_of(mutation.clone())),
        StoreFact::Rendezvous { run, fact } => {
            wire::fact::Kind::Rendezvous(wire::Rendezvous { run: run.to_string(), fact: json(fact) })
        }
        StoreFact::Operation(origin) => wire::fact::Kind::Operation(operation_of(origin.clone())),
    }
}

fn fact_of(kind: wire::fact::Kind) -> Result<JournalFact, RecordError> {
    let fact = match kind {
        wire::fact::Kind::Key(key) => StoreFact::Key(mutation_of(key)),
        wire::fact::Kind::Rendezvous(rendezvous) => {
            StoreFact::Rendezvous { run: Arc::from(rendezvous.run), fact: serde_json::from_slice(&rendezvous.fact)? }
        }
        wire::fact::Kind::Operation(operation) => StoreFact::Operation(origin_of(operation)),
        wire::fact::Kind::Ledger(data) => return Ok(JournalFact::Data(serde_json::from_slice(&data.fact)?)),
        wire::fact::Kind::SkippedRecords(left) => {
            return Ok(JournalFact::SkippedRecords(serde_json::from_slice(&left.counts)?));
        }
        wire::fact::Kind::Servers(made) => return Ok(JournalFact::Servers(serde_json::from_slice(&made.fact)?)),
    };
    Ok(JournalFact::Store(fact))
}

fn key_of(Mutation { seq, key, change }: Mutation) -> wire::Key {
    let nothing = wire::Key { seq, key, value: None, pushed: None, popped: None };
    match change {
        Change::Set(value) => wire::Key { value: Some(value), ..nothing },
        Change::Deleted => nothing,
        Change::Pushed(value) => wire::Key { pushed: Some(value), ..nothing },
        Change::Popped { pushed } => wire::Key { popped: Some(pushed), ..nothing },
    }
}

fn mutation_of(key: wire::Key) -> Mutation {
    let change = match (key.value, key.pushed, key.popped) {
        (Some(value), _, _) => Change::Set(value),
        (None, Some(value), _) => Change::Pushed(value),
        (None, None, Some(pushed)) => Change::Popped { pushed },
        (None, None, None) => Change::Deleted,
    };
    Mutation { seq: key.seq, key: key.key, change }
}

fn operation_of(OperationRecord { link, connection, number, reply }: OperationRecord) -> wire::Operation {
    wire::Operation { link, connection, number, reply }
}

fn origin_of(wire::Operation { link, connection, number, reply }: wire::Operation) -> OperationRecord {
    OperationRecord { link, connection, number, reply }
}

#[cfg(test)]
mod tests {
    use flexor_engine::rendezvous::{Fact, MemberId, Processes};

    use super::*;

    #[test]
    fn facts_survive_the_journal() {
        let mutation = |change| StoreFact::Key(Mutation { seq: 7, key: Bytes::from_static(b"k"), change });
        let facts = vec![
            mutation(Change::Set(Bytes::from_static(b"v"))),
            mutation(Change::Set(Bytes::new())),
            mutation(Change::Deleted),
            mutation(Change::Pushed(Bytes::from_static(b"i"))),
            mutation(Change::Popped { pushed: 3 }),
            StoreFact::Rendezvous {
                run: "job".into(),
                fact: Fact::Joined { id: MemberId::new("a_1_0", 0), newcomer: true, processes: Processes::default() },
            },
            StoreFact::Operation(OperationRecord {
                link: 1,
                connection: 2,
                number: 3,
                reply: Bytes::from_static(b"\x01"),
            }),
        ];
        let read = decode(&encode(&facts)).unwrap();
        assert_eq!(read, facts.into_iter().map(JournalFact::Store).collect::<Vec<_>>());
        let granted = ledger::Fact::Accounted { grant: ledger::GrantId(3), batches: ledger::Batches::new(0, 9) };
        assert_eq!(decode(&encode_data(std::slice::from_ref(&granted), None)).unwrap(), [JournalFact::Data(granted)]);
    }

    #[test]
    fn bytes_that_are_no_record_are_refused() {
        assert!(decode(b"\xff\xff\xff").is_err());
    }

    #[test]
    fn a_restored_position_is_read_back() {
        let mut ledger = ledger::Ledger::default();
        let mut facts = Vec::new();
        ledger.register(ledger::DatasetSpec::new("d", 100, 10).unwrap(), &mut facts).unwrap();
        let (worker, now) = (ledger::WorkerId::new("w", 1), std::time::Duration::from_secs(1));
        let asked = ledger::LeaseRequest {
            dataset: "d".into(),
            batches: 1,
            epoch: None,
            client: ledger::ClientKind::Stateless,
        };
        ledger.lease(&worker, &asked, now, &mut facts).unwrap();
        let position = ledger.position();
        assert!(!position.datasets["d"].epochs.is_empty(), "the position has an open epoch");
        ledger.restore(position, now, &mut facts).unwrap();
        let read: Vec<JournalFact> = decode(&encode_data(&facts, None)).unwrap();
        assert_eq!(read, facts.into_iter().map(JournalFact::Data).collect::<Vec<_>>());
    }
}
