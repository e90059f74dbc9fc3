//! The keys below a prefix, from the master's list of all keys.
//!
//! The clients of a sidecar with a prefix have a store of their own: they see neither the prefix nor keys without it.

use bytes::Bytes;

use crate::codec::Reply;

/// The part of a LIST_KEYS reply that a client asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListedKeys {
    /// The names without the prefix.
    Names(Bytes),
    /// How many there are.
    Count(Bytes),
}

impl ListedKeys {
    /// The reply for the client. A reply of another form is passed on as it is.
    pub(super) fn reply(&self, list: Bytes) -> Bytes {
        let Some(all) = read(&list) else { return list };
        let reply = match self {
            ListedKeys::Names(prefix) => Reply::Keys(below(&all, prefix).collect()),
            ListedKeys::Count(prefix) => Reply::Number(i64::try_from(below(&all, prefix).count()).unwrap_or(i64::MAX)),
        };
        reply.into_bytes()
    }
}

fn below<'a>(all: &'a [Bytes], prefix: &'a [u8]) -> impl Iterator<Item = Bytes> + 'a {
    all.iter().filter(move |key| key.starts_with(prefix)).map(move |key| key.slice(prefix.len()..))
}

/// The keys of an encoded [`Reply::Keys`].
fn read(list: &Bytes) -> Option<Vec<Bytes>> {
    let mut at = 0;
    let number = |at: &mut usize| {
        let bytes = list.get(*at..at.checked_add(8)?)?;
        *at += 8;
        usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    let count = number(&mut at)?;
    let mut keys = Vec::new();
    for _ in 0..count {
        let length = number(&mut at)?;
        let end = at.checked_add(length).filter(|end| *end <= list.len())?;
        keys.push(list.slice(at..end));
        at = end;
    }
    (at == list.len()).then_some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&'static str]) -> Bytes {
        Reply::Keys(names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()).into_bytes()
    }

    #[test]
    fn a_client_sees_only_the_keys_below_its_prefix() {
        let all = keys(&["/other", "round.1/a", "round.1/", "round.10/b"]);
        let prefix = Bytes::from_static(b"round.1/");
        assert_eq!(ListedKeys::Names(prefix.clone()).reply(all.clone()), keys(&["a", ""]));
        assert_eq!(ListedKeys::Count(prefix).reply(all), Reply::Number(2).into_bytes());
    }

    #[test]
    fn a_list_that_is_cut_or_too_long_is_passed_on_unread() {
        let all = keys(&["round.1/a"]);
        let longer = Bytes::from([&all[..], b"x"].concat());
        let endless = Bytes::from_static(&[0xff; 16]);
        for odd in (0..all.len()).map(|end| all.slice(..end)).chain([longer, endless]) {
            assert_eq!(ListedKeys::Count(Bytes::from_static(b"round.1/")).reply(odd.clone()), odd);
        }
    }
}
