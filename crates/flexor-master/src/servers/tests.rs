use std::num::NonZeroU64;

use flexor_engine::psmembers::Checkpoint;
use flexor_engine::shards::{DatasetSpec, Stepping};

use super::*;
use crate::data::Accounts;

/// Servers of a job that trains in steps.
async fn in_steps(refused: &watch::Sender<Option<JournalError>>) -> Servers {
    let (journal, clock) = (Arc::new(Journal::in_memory()), Clock::start(crate::faults::Faults::off()));
    let data = Data::new(Accounts::default(), Arc::clone(&journal), clock.clone(), refused.clone());
    let steps = Stepping { batches: NonZeroU64::MIN, ahead: 0 };
    data.register(DatasetSpec::new("d", 100, 10).unwrap().with_steps(Some(steps))).await.unwrap();
    let checkpoints = Checkpoints { folder: "kept".to_owned(), every: Duration::from_secs(60), keep: 0 };
    let wishes = (Settings::default(), Some(checkpoints));
    Servers::new(PsMembers::default(), wishes, data, journal, clock, refused.clone())
}

#[tokio::test]
async fn a_master_ends_that_cannot_take_the_data_back_with_the_servers() {
    let refused = watch::Sender::new(None);
    let servers = in_steps(&refused).await;
    let kept = Checkpoint { number: 1, ledger: "nonsense".into() };
    servers.report(|members, now, facts| members.found(Some((kept, "{}")), 1, now, facts)).unwrap();
    let [zero, one] = ["ps-0", "ps-1"].map(|name| ServerId::new(name, 1));
    servers.observe(2, &["ps-0", "ps-1"], &[]).unwrap();
    for server in [&zero, &one] {
        servers.session_begun(server, "here:1").unwrap();
    }
    assert!(servers.with_members(|members| members.map().epoch.0 > 0));
    assert!(refused.borrow().is_none(), "what is read from a checkpoint is not what its data says");

    let decided = servers.observe(1, &["ps-1"], &[]);
    assert!(decided.unwrap_err().detail.contains("contradicts the journal"));
    let refused = refused.borrow().clone();
    assert!(matches!(&refused, Some(error @ JournalError::Contradiction(_)) if error.is_final()), "{refused:?}");
}
