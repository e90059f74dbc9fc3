//! The script of a storm: at short intervals it tries to kill a parameter server.
//!
//! A script that spares servers kills one only while every partition has two replicas. So each kill comes as soon as
//! redundancy is restored after the one before, and no update may be lost.

use serde_json::{Value, json};

/// The name of the script in the folder of a job.
pub(super) const FILE: &str = "storm.json";

/// When the first server is killed, and the time between two attempts, in milliseconds.
const FIRST_MS: u64 = 3000;
const EVERY_MS: u64 = 400;
/// Attempts for as long as a job may take.
const ATTEMPTS: u64 = 590;
/// The servers of the example.
const SERVERS: u64 = 2;

/// The seed decides which server is tried when.
pub(super) fn script(seed: u64) -> Value {
    let fault = |attempt: u64| {
        let chance = mix(seed.wrapping_mul(ATTEMPTS).wrapping_add(attempt));
        let slot = json!({
            "job": { "namespace": "default", "name": "quickstart" },
            "role": "ps",
            "rank": chance % SERVERS,
        });
        json!({ "atMs": FIRST_MS + attempt * EVERY_MS + (chance >> 8) % EVERY_MS, "fault": { "kill": slot } })
    };
    let faults: Vec<Value> = (0..ATTEMPTS).map(fault).collect();
    json!({ "version": 1, "seed": seed, "rate": 1, "spareServers": true, "faults": faults })
}

/// The finaliser of SplitMix64.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_makes_the_same_storm_and_another_seed_another_one() {
        assert_eq!(script(7), script(7));
        assert_ne!(script(7)["faults"], script(8)["faults"]);
        let faults = script(7)["faults"].as_array().unwrap().len();
        let first = |script: &Value| {
            script["faults"].as_array().unwrap().iter().filter(|fault| fault["fault"]["kill"]["rank"] == 0).count()
        };
        assert!((faults / 3..faults).contains(&first(&script(7))), "both servers are tried");
    }
}
