//! The same store can be rebuilt from its changes in any order and with duplicates.

use flexor_store::keyspace::{Keyspace, Mutation};
use flexor_store::service::{ConnId, Now, Outbox, Service};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::requests::request;

fn restored(mutations: &[Mutation]) -> Keyspace {
    let mut keys = Keyspace::new();
    for mutation in mutations {
        keys.restore(mutation.clone(), &mut Outbox::default());
    }
    keys.end_recovery();
    keys
}

proptest! {
    #[test]
    fn changes_in_any_order_build_the_same_store(
        history in vec(request(), 1..80),
        order in vec(any::<u32>(), 50),
    ) {
        let (mut keys, mut out) = (Keyspace::recording(), Outbox::default());
        for request in history {
            let _ = keys.request(ConnId::fresh(), request, Now::ZERO, &mut out);
        }
        let mutations = keys.take_mutations();
        prop_assert!(mutations.is_sorted_by(|earlier, later| earlier.seq < later.seq));
        prop_assert_eq!(restored(&mutations).snapshot(), keys.snapshot());

        let twice = mutations.iter().chain(&mutations).cloned();
        let mut mixed: Vec<_> = order.into_iter().cycle().zip(twice).collect();
        mixed.sort_by_key(|(place, _)| *place);
        let mixed: Vec<_> = mixed.into_iter().map(|(_, mutation)| mutation).collect();
        let from_mixed = restored(&mixed);
        prop_assert_eq!(from_mixed.snapshot(), keys.snapshot());
        prop_assert_eq!(from_mixed.last_seq(), keys.last_seq());
        prop_assert_eq!(restored(&keys.snapshot()).snapshot(), keys.snapshot());
    }
}
