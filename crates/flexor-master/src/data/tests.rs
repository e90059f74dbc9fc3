use flexor_engine::ledger::ClientKind;

use super::*;

fn data() -> Data {
    Data::new(
        JournaledData::default(),
        Arc::new(Journal::in_memory()),
        Clock::start(crate::faults::Faults::off()),
        watch::Sender::new(None),
    )
}

#[tokio::test]
async fn a_worker_that_ends_while_it_waits_is_granted_nothing() {
    let data = data();
    data.register(DatasetSpec::new("d", 10, 10).unwrap()).await.unwrap();
    let (holder, waiter) = (WorkerId::new("holder", 1), WorkerId::new("waiter", 1));
    let asked = LeaseRequest { dataset: "d".into(), batches: 1, epoch: None, client: ClientKind::Stateless };
    let LeaseOutcome::Lease(lease) = data.lease(&holder, &asked, Duration::ZERO).await.unwrap() else {
        panic!("there is one batch");
    };
    let waits = data.lease(&waiter, &asked, Duration::from_secs(60));
    // The first task waits before the second begins.
    let ends = async {
        data.worker_ended(&waiter, WorkerEnd::Lost).await.unwrap();
        data.release(&holder, (lease.grant, lease.batches), false).await.unwrap();
    };
    let (waited, ()) = tokio::join!(biased; waits, ends);
    assert_eq!(waited.unwrap_err().reason, Reason::WorkerEnded);
    assert_eq!(data.status()[0].totals.granted, 0);
}
