//! A server that is cut off from the master but reachable for all others.

use std::time::Duration;

use flexor_ps::batch::BatchId;
use flexor_ps::client::{Client, Gradients};
use flexor_ps::push::NonFinite;
use tokio::time::{Instant, timeout};

use super::dice::Dice;
use super::model::{TABLE, keys, spec};
use super::network::{Name, Network};
use super::world::{MASTER, World};

/// The longest time of a push: several times the master's timeout of a server plus the client's timeout of an answer.
const LIMIT: Duration = Duration::from_secs(15);

#[tokio::test(start_paused = true)]
async fn a_push_does_not_wait_for_a_server_that_cannot_learn_of_its_demotion() {
    for seed in flexor_seeds::range(0..20) {
        let dice = Dice::new(seed);
        let network = Network::new(dice.clone());
        let mut world = World::begin(network.clone(), 2, None).await;
        world.start_server("ps-0");
        world.start_server("ps-1");
        world.report_desired();
        let dialer = network.dialer(&Name::from("worker"));
        let mut client = Client::with_dialer(MASTER, None, spec(), dialer).await.unwrap();
        let keys = keys();
        let ones = vec![-1.0; keys.len()];
        let began = Instant::now();
        let mut is_cut_off = false;
        for first in 0.. {
            if first == 10 {
                network.disconnect(&world.servers["ps-0"].address, &Name::from(MASTER));
                is_cut_off = true;
            }
            let gradients = Gradients {
                batch: BatchId { dataset: 1, epoch: 0, first, len: 1 },
                learning_rate: 0.0,
                rewind_epoch: None,
                non_finite: NonFinite::Refuse,
                rows: &[(TABLE, &keys, &ones)],
                variables: &[],
            };
            let pushed = timeout(LIMIT, client.push(&gradients)).await;
            pushed
                .unwrap_or_else(|_| panic!("batch {first}: {}; {}", world.describe(), flexor_seeds::replay_line(seed)))
                .unwrap();
            if is_cut_off && began.elapsed() > Duration::from_secs(40) {
                break;
            }
            tokio::time::sleep(dice.within(Duration::from_millis(200))).await;
        }
        let primaries = world.status().unwrap().servers;
        let primary = primaries.iter().find(|server| server.name == "ps-1").unwrap();
        assert_eq!(primary.partitions, 256, "the other server is primary of all partitions");
    }
}
