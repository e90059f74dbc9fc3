//! Random requests.

use bytes::Bytes;
use flexor_store::codec::Request;
use proptest::collection::vec;
use proptest::prelude::*;

/// Any request over few keys, so that requests share keys, and with values that are often numbers.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    let key = || prop_oneof!["[ab]", "q[12]", ""].prop_map(Bytes::from);
    let keys = move || vec(key(), 0..4);
    let value = || {
        prop_oneof![
            2 => "-?[0-9]{1,3}".prop_map(Bytes::from),
            1 => vec(any::<u8>(), 0..6).prop_map(Bytes::from),
        ]
    };
    prop_oneof![
        Just(Request::Validate),
        (key(), value()).prop_map(|(key, value)| Request::Set { key, value }),
        (key(), prop_oneof![Just(Bytes::new()), value()], value())
            .prop_map(|(key, expected, desired)| Request::CompareSet { key, expected, desired }),
        key().prop_map(|key| Request::Get { key }),
        (key(), prop_oneof![-3i64..4, any::<i64>()]).prop_map(|(key, delta)| Request::Add { key, delta }),
        keys().prop_map(|keys| Request::Check { keys }),
        keys().prop_map(|keys| Request::Wait { keys }),
        Just(Request::GetNumKeys),
        key().prop_map(|key| Request::DeleteKey { key }),
        (key(), value()).prop_map(|(key, value)| Request::Append { key, value }),
        keys().prop_map(|keys| Request::MultiGet { keys }),
        vec((key(), value()), 0..3).prop_map(|pairs| Request::MultiSet { pairs }),
        Just(Request::CancelWait),
        any::<u32>().prop_map(|nonce| Request::Ping { nonce }),
        (key(), value()).prop_map(|(key, value)| Request::QueuePush { key, value }),
        key().prop_map(|key| Request::QueuePop { key }),
        key().prop_map(|key| Request::QueueLen { key }),
        Just(Request::ListKeys),
        (key(), -1i64..4).prop_map(|(key, world_size)| Request::Barrier { key, world_size }),
    ]
}
