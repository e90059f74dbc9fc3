//! Records that are pickled objects of Python, as PaddlePaddle's tools write them into RecordIO.
//!
//! Unpickling runs code that the record names, so it is left to Python. This module only recognises such records, so
//! that the worker can name them in its error.

/// What such a record is, and what to do.
pub(super) const ADVICE: &str = "a Python pickle, as PaddlePaddle's datasets have them, which only Python can read; write \
                                 tf.train.Example instead: flexor data convert makes it of IDX files and of tables with a \
                                 header";

/// The instruction that names the protocol, from 2 on. It is no first byte of a `tf.train.Example` and of no UTF-8 text.
const PROTOCOL: u8 = 0x80;
const PROTOCOLS: std::ops::RangeInclusive<u8> = 2..=5;
/// The last instruction of every pickle.
const STOP: u8 = b'.';

/// Whether a record is a pickle. Protocols 0 and 1 have no mark of their own; a tuple or a list begins with a bracket.
pub(super) fn is_pickle(record: &[u8]) -> bool {
    match record {
        [PROTOCOL, protocol, .., STOP] => PROTOCOLS.contains(protocol),
        [b'(' | b']', .., STOP] => true,
        _ => false,
    }
}
