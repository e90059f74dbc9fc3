//! Stories of one server that the master does not reach, though all others do.

use std::time::Duration;

use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, Gradients};
use flexor_ps::push::NonFinite;
use tokio::time::{Instant, timeout};

use super::dice::Dice;
use super::model::{TABLE, keys, spec};
use super::network::{Name, Network};
use super::world::{MASTER, World};

/// How long a push may take: what the master waits for a server, and what a client waits for an answer, several times.
const LIMIT: Duration = Duration::from_secs(15);

#[tokio::test(start_paused = true)]
async fn a_push_does_not_wait_for_a_server_that_does_not_hear_what_has_become_of_it() {
    for seed in 0..20 {
        let dice = Dice::new(seed);
        let network = Network::new(dice.clone());
        let mut world = World::begin(network.clone(), 2, None).await;
        world.start_server("ps-0");
        world.start_server("ps-1");
        world.want();
        let dialer = network.dialer(&Name::from("worker"));
        let mut client = Client::with_dialer(MASTER, None, spec(), dialer).await.unwrap();
        let keys = keys();
        let ones = vec![-1.0; keys.len()];
        let began = Instant::now();
        let mut is_cut_off = false;
        for first in 0.. {
            if first == 10 {
                network.part(&world.servers["ps-0"].address, &Name::from(MASTER));
                is_cut_off = true;
            }
            let gradients = Gradients {
                batch: BatchId { dataset: 1, epoch: 0, first, len: 1 },
                learning_rate: 0.0,
                in_step: None,
                non_finite: NonFinite::Refuse,
                rows: &[(TABLE, &keys, &ones)],
                variables: &[],
            };
            let pushed = timeout(LIMIT, client.push(&gradients)).await;
            pushed.unwrap_or_else(|_| panic!("seed {seed}: batch {first}: {}", world.described())).unwrap();
            if is_cut_off && began.elapsed() > Duration::from_secs(40) {
                break;
            }
            tokio::time::sleep(dice.within(Duration::from_millis(200))).await;
        }
        let owners = world.status().unwrap().servers;
        let owner = owners.iter().find(|server| server.name == "ps-1").unwrap();
        assert_eq!(owner.partitions, 256, "the other has taken over");
    }
}
