//! The names of torchrun's keys.

#[cfg(test)]
use bytes::Bytes;
use flexor_engine::rendezvous::Runs;
use flexor_model::Round;

const PREFIX: &[u8] = b"/torch.rendezvous.";

/// The run whose state a key holds, if it holds one: the keys of rounds and of programs can have the same form.
pub(super) fn run_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(PREFIX)?).ok()
}

#[cfg(test)]
pub(super) fn state_key(run: &str) -> Bytes {
    [PREFIX, run.as_bytes()].concat().into()
}

/// The prefix of the keys of one round.
pub(super) fn round_prefix(run: &str, round: Round) -> String {
    format!("/torch.rendezvous.{run}.{round}/")
}

/// The counter of an exit barrier, below the prefix of the round: each agent whose workers have ended increments it.
pub(super) const EXIT_COUNT: &str = "torchelastic/agent/terminal_state/num_members";
/// The key that agents at an exit barrier wait for.
pub(super) const EXIT_DONE: &str = "torchelastic/agent/terminal_state/last_member";
/// The prefix of what the agent of each rank writes about itself before the ranks of workers are assigned.
pub(super) const ROLE_INFO: &str = "torchelastic/role_info/";
/// The prefix of the assignments that the agent of rank 0 writes for each other agent.
pub(super) const ASSIGNED_RANKS: &str = "torchelastic/assigned_ranks/";
/// The address of the workers' own rendezvous; written by the agent of rank 0.
pub(super) const LEADER_ADDRESS: &str = "MASTER_ADDR";
/// The port of [`LEADER_ADDRESS`].
pub(super) const LEADER_PORT: &str = "MASTER_PORT";

/// The round of a run that a key belongs to, and the rest of the key. Names of runs may contain dots and slashes.
fn split_round<'a>(run: &str, key: &'a [u8]) -> Option<(Round, &'a [u8])> {
    let rest = key.strip_prefix(PREFIX)?.strip_prefix(run.as_bytes())?.strip_prefix(b".")?;
    let (round, rest) = rest.split_at(rest.iter().position(|byte| *byte == b'/')?);
    Some((Round(std::str::from_utf8(round).ok()?.parse().ok()?), &rest[1..]))
}

/// Whether a key is one of a round of a known run. An agent or a launcher makes its run known before it writes any of them.
pub(super) fn is_of_known_round(runs: &Runs, key: &[u8]) -> bool {
    runs.iter().any(|(run, _)| split_round(run, key).is_some())
}

/// The round of a key of an exit barrier of this run.
pub(super) fn exit_round(run: &str, key: &[u8]) -> Option<Round> {
    let (round, rest) = split_round(run, key)?;
    (rest == EXIT_COUNT.as_bytes() || rest == EXIT_DONE.as_bytes()).then_some(round)
}

/// The run and round of a key that agents write in every round. For runs that are not known yet.
pub(super) fn round_of(key: &[u8]) -> Option<(&str, Round)> {
    let rest = std::str::from_utf8(key.strip_prefix(PREFIX)?).ok()?;
    let end = [LEADER_ADDRESS, LEADER_PORT, "torchelastic/"].iter().find_map(|name| rest.rfind(&format!("/{name}")))?;
    let (run, round) = rest[..end].rsplit_once('.')?;
    let round: u64 = round.parse().ok()?;
    (round < u64::MAX).then_some((run, Round(round)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_an_exit_barrier_names_its_round() {
        let key = format!("{}{EXIT_COUNT}", round_prefix("job.7", Round(3)));
        assert_eq!(exit_round("job.7", key.as_bytes()), Some(Round(3)));
        assert_eq!(exit_round("job", key.as_bytes()), None);
        assert_eq!(exit_round("job.7", b"/torch.rendezvous.job.7.3/other"), None);
        assert_eq!(exit_round("job.7", b"/torch.rendezvous.job.7"), None);
        let odd = "exp/v1.2/my run";
        let key = format!("{}{EXIT_DONE}", round_prefix(odd, Round(0)));
        assert_eq!(exit_round(odd, key.as_bytes()), Some(Round(0)));
        assert_eq!(round_of(key.as_bytes()), Some((odd, Round(0))));
    }

    #[test]
    fn a_state_key_names_its_run() {
        assert_eq!(run_of(&state_key("job a")), Some("job a"));
        assert_eq!(run_of(b"/default_pg/0"), None);
    }
}
