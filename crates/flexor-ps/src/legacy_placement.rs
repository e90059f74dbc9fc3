//! The placement rules of ElasticDL's workers.
//!
//! Only the ElasticDL compatibility service uses this module; its servers keep whatever workers send them. Native
//! servers use [`crate::placement`].

use std::num::NonZeroU32;

use sha2::{Digest, Sha256};

/// The server of a dense variable: the hexadecimal digits of its name's SHA-256, read in base 32, modulo `servers`.
pub fn server_of_variable(name: &str, servers: NonZeroU32) -> u32 {
    let servers = u64::from(servers.get());
    let digest = Sha256::digest(name.as_bytes());
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let shard = digits.fold(0, |sum: u64, digit| (sum * 32 + u64::from(digit)) % servers);
    // The remainder is below the number of servers, which is a u32.
    shard as u32
}

/// The server of a row. ElasticDL has no negative ids; here they get the Euclidean remainder.
pub fn server_of_row(id: i64, servers: NonZeroU32) -> u32 {
    id.rem_euclid(i64::from(servers.get())) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers_of(name: &str) -> Vec<u32> {
        (1..=8).map(|servers| server_of_variable(name, NonZeroU32::new(servers).unwrap())).collect()
    }

    #[test]
    fn variables_go_where_the_released_workers_send_them() {
        assert_eq!(servers_of("dense/kernel:0"), [0, 0, 1, 2, 4, 4, 6, 6]);
        assert_eq!(servers_of("conv2d/kernel:0"), [0, 1, 2, 3, 0, 5, 3, 7]);
    }

    #[test]
    fn rows_go_by_their_remainder() {
        let three = NonZeroU32::new(3).unwrap();
        assert_eq!([0, 1, 2, 3, 100, -1].map(|id| server_of_row(id, three)), [0, 1, 2, 0, 1, 2]);
    }
}
