//! Initial values of rows: Keras' initializers, independent of servers and of the order of pulls.

use std::num::NonZeroU32;

use flexor_ps::elasticdl::{Options, Parameters};
use flexor_ps::legacy_placement::server_of_row;
use flexor_ps::spec::Optimizer;

use super::loopback_server::{ASYNC, LoopbackServer};

async fn first_rows(initializer: &str, ids: &[i64]) -> Vec<Vec<f32>> {
    let mut server = LoopbackServer::new(Optimizer::adam(0.1), ASYNC).await;
    server.push_infos(&[("e", 8, initializer)]).await.unwrap();
    server.rows("e", ids).await.unwrap()
}

#[tokio::test]
async fn initializers_have_the_meaning_of_keras() {
    let ids: Vec<i64> = (0..500).collect();
    let all = async |name: &str| first_rows(name, &ids).await.concat();
    assert!(all("zeros").await.iter().all(|value| *value == 0.0));
    assert!(all("Ones").await.iter().all(|value| *value == 1.0));
    assert!(all("constant(0.5)").await.iter().all(|value| *value == 0.5));
    let uniform = all("uniform").await;
    assert_eq!(uniform, all("RandomUniform").await);
    assert!(uniform.iter().all(|value| (-0.05..0.05).contains(value)) && uniform.iter().any(|value| *value > 0.04));
    let normal = all("RandomNormal").await;
    assert_eq!(normal, all("normal").await);
    assert!(normal.iter().any(|value| value.abs() > 0.1) && normal.iter().all(|value| value.abs() < 0.3));
    assert!(all("TruncatedNormal").await.iter().all(|value| value.abs() <= 0.1));
    let reach = |values: Vec<f32>| values.into_iter().fold(0.0, |most: f32, value| most.max(value.abs()));
    let glorot = reach(all("GlorotUniform").await);
    assert!((0.8..0.817).contains(&glorot), "{glorot} is not about the root of 6 / 9");
    for name in ["glorot_normal", "HeUniform", "he_normal", "LecunUniform", "lecun_normal"] {
        assert!(reach(all(name).await) > 0.1, "{name}");
    }
}

#[tokio::test]
async fn values_do_not_depend_on_order_or_on_how_many_servers_there_are() {
    let ids = [0, 1, 2, 3, 5, 8, 13, 1_000_000_007, i64::MAX];
    let alone = first_rows("uniform", &ids).await;
    for count in [2, 3, 5] {
        let servers = NonZeroU32::new(count).unwrap();
        let mut parts = Vec::new();
        for _ in 0..count {
            let server = LoopbackServer::new(Optimizer::sgd(0.1), ASYNC).await;
            parts.push(server);
            parts.last_mut().unwrap().push_infos(&[("other", 3, "normal"), ("e", 8, "uniform")]).await.unwrap();
        }
        for (id, wanted) in ids.iter().zip(&alone).rev() {
            let part = &mut parts[server_of_row(*id, servers) as usize];
            assert_eq!(part.rows("e", &[*id, *id]).await.unwrap(), [wanted.clone(), wanted.clone()]);
        }
    }
}

#[tokio::test]
async fn another_seed_has_other_values() {
    let options = Options { optimizer: Optimizer::sgd(0.1), mode: ASYNC, seed: 8 };
    let mut server = LoopbackServer::with(Parameters::new(options).unwrap(), None).await;
    server.push_infos(&[("e", 8, "uniform"), ("f", 8, "uniform")]).await.unwrap();
    let rows = server.rows("e", &[1, 2]).await.unwrap();
    assert_ne!(rows[0], rows[1]);
    assert_ne!(rows, first_rows("uniform", &[1, 2]).await);
    assert_ne!(rows, server.rows("f", &[1, 2]).await.unwrap());
}
