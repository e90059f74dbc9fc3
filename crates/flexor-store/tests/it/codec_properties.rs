//! Decoding reverses encoding in pieces of any size, and its limits hold before any byte is kept.

use bytes::{Bytes, BytesMut};
use flexor_store::codec::{DecodeError, Decoder, MAX_KEY, MAX_KEYS, MAX_REQUEST, MAX_VALUE, Request};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::requests::request;

const GREETING: [u8; 5] = [0, 0xce, 0xf7, 0x85, 0x3c];

proptest! {
    #[test]
    fn requests_survive_the_wire_in_any_pieces(requests in vec(request(), 1..20), cuts in vec(1usize..40, 1..60)) {
        let mut bytes = BytesMut::from(&GREETING[..]);
        requests.iter().for_each(|request| request.encode(&mut bytes));
        let mut decoder = Decoder::new();
        let mut decoded = Vec::new();
        let mut cuts = cuts.into_iter().cycle();
        while !bytes.is_empty() {
            let piece = bytes.split_to(cuts.next().unwrap().min(bytes.len()));
            decoder.push(&piece);
            while let Some(request) = decoder.next_request().unwrap() {
                decoded.push(request);
            }
        }
        prop_assert_eq!(decoder.pending(), 0);
        prop_assert_eq!(&decoded[0], &Request::Validate);
        prop_assert_eq!(&decoded[1..], &requests[..]);
    }

    #[test]
    fn a_frame_is_the_request_s_own_bytes_and_can_be_parsed_alone(request in request()) {
        let bytes = request.to_bytes();
        let mut decoder = Decoder::new();
        decoder.push(&GREETING);
        decoder.push(&bytes);
        prop_assert_eq!(decoder.next_frame().unwrap().unwrap(), &GREETING[..]);
        prop_assert_eq!(decoder.next_frame().unwrap().unwrap(), &bytes);
        prop_assert_eq!(decoder.next_frame().unwrap(), None);
        prop_assert_eq!(Request::parse(&bytes).unwrap(), request);
        prop_assert_eq!(Request::parse(&bytes[..bytes.len() - 1]), Err(DecodeError::Truncated(bytes.len() - 1)));
        let longer = [&bytes[..], b"x"].concat();
        prop_assert_eq!(Request::parse(&longer), Err(DecodeError::TrailingBytes(1)));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in vec(any::<u8>(), 0..200)) {
        let mut decoder = Decoder::new();
        decoder.push(&GREETING);
        decoder.push(&bytes);
        while let Ok(Some(_)) = decoder.next_request() {}
        let _ = Request::parse(&bytes);
    }
}

fn error_of(bytes: &[u8]) -> DecodeError {
    let mut decoder = Decoder::new();
    decoder.push(&GREETING);
    decoder.push(bytes);
    loop {
        match decoder.next_request() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the bytes were accepted"),
            Err(error) => return error,
        }
    }
}

#[test]
fn lengths_beyond_the_limits_are_refused_as_soon_as_they_are_declared() {
    let le = |number: usize| (number as u64).to_le_bytes();
    let key = [&le(1)[..], b"k"].concat();
    assert_eq!(error_of(&[&[3u8][..], &le(MAX_KEY + 1)].concat()), DecodeError::KeyTooLong(MAX_KEY as u64 + 1));
    let value = [&[1u8][..], &key, &le(MAX_VALUE + 1)].concat();
    assert_eq!(error_of(&value), DecodeError::ValueTooLong(MAX_VALUE as u64 + 1));
    assert_eq!(error_of(&[&[6u8][..], &le(MAX_KEYS + 1)].concat()), DecodeError::TooManyKeys(MAX_KEYS as u64 + 1));
    assert_eq!(error_of(&[&[11u8][..], &[0xff; 8]].concat()), DecodeError::TooManyKeys(u64::MAX));
    assert_eq!(error_of(&[&[3u8][..], &le(4 << 30)].concat()), DecodeError::KeyTooLong(4 << 30));
}

#[test]
fn values_that_are_allowed_each_must_not_add_up_to_more_than_a_request() {
    let pair = (Bytes::from_static(b"k"), Bytes::from(vec![0; MAX_VALUE]));
    let count = MAX_REQUEST / MAX_VALUE;
    let bytes = Request::MultiSet { pairs: vec![pair; count] }.to_bytes();
    assert!(bytes.len() > MAX_REQUEST);
    // The last value is refused when its length is known, without its bytes.
    let until_last_length = bytes.len() - MAX_VALUE;
    assert_eq!(error_of(&bytes[..until_last_length]), DecodeError::RequestTooLong);
}

#[test]
fn only_torch_2_2_and_later_is_spoken_to() {
    let mut decoder = Decoder::new();
    decoder.push(&[1]);
    let error = decoder.next_request().unwrap_err();
    assert_eq!(error, DecodeError::NotValidated(1));
    assert!(error.to_string().contains("torch >= 2.2 is required"), "{error}");

    let mut decoder = Decoder::new();
    decoder.push(&[0, 1, 2, 3, 4]);
    assert_eq!(decoder.next_request(), Err(DecodeError::WrongMagic { found: 0x0403_0201 }));
    assert_eq!(error_of(&[19]), DecodeError::UnknownOpcode(19));
}

#[test]
fn a_long_request_in_small_pieces_is_not_read_again_from_its_start() {
    let keys = vec![Bytes::from_static(b"k"); MAX_KEYS];
    let bytes = Request::Wait { keys }.to_bytes();
    let mut decoder = Decoder::new();
    decoder.push(&GREETING);
    assert_eq!(decoder.next_request(), Ok(Some(Request::Validate)));
    let start = std::time::Instant::now();
    let decoded = bytes.chunks(16).filter(|piece| {
        decoder.push(piece);
        decoder.next_request().unwrap().is_some()
    });
    assert_eq!(decoded.count(), 1);
    // Reading everything again for each of the 74,000 pieces would take minutes.
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}
