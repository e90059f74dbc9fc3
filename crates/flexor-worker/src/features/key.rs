//! Hashes a categorical value to the key of its embedding row.
//!
//! A key is `mix(fnv(value) + mix(space + 1))`: `fnv` is FNV-1a with 64 bits over the bytes of the value, `mix` is the
//! finaliser of SplitMix64, additions wrap. The space is the number of the field, so the same text in two fields has
//! two rows; fields with one space share rows. Checkpoints store keys, so this function must not change.

const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01B3;

pub fn key(space: u32, value: &[u8]) -> u64 {
    let text = value.iter().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME));
    mix(text.wrapping_add(mix(u64::from(space) + 1)))
}

/// The key of a pair of values, in this order.
pub fn crossed(first: u64, second: u64) -> u64 {
    mix(mix(first).wrapping_add(second))
}

/// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_earlier_checkpoints() {
        assert_eq!(mix(1), 0x5692_161D_100B_05E5);
        assert_eq!(key(0, b""), 0x52E3_5317_C18F_5C6C);
        assert_eq!(key(0, b"17"), 0xA287_3215_823E_2B74);
        assert_eq!(key(3, b"Private"), 0x56C5_598F_BBAE_D212);
        assert_eq!(crossed(1, 2), 0xEF30_B01C_2974_AEEB);
    }

    #[test]
    fn fields_share_rows_only_when_asked() {
        assert_ne!(key(0, b"17"), key(1, b"17"));
        assert_eq!(key(5, b"17"), key(5, b"17"));
        assert_ne!(crossed(1, 2), crossed(2, 1));
    }
}
