use proptest::prelude::*;

use super::*;

#[test]
fn a_digit_is_laid_out_as_elasticdl_has_it() {
    let mut writer = ExampleWriter::new();
    let pixels = (0..784).map(|at| (at % 256) as f32);
    let record = writer.floats("image", pixels).integers("label", &[5]).finish().to_vec();
    assert_eq!(record.len(), 3174);
    // Example.features, an entry of 3152 bytes, its key.
    assert_eq!(record[..13], *b"\x0a\xe3\x18\x0a\xd0\x18\x0a\x05image");
    // Its value: a feature with a list of floats, packed.
    assert_eq!(record[13..22], *b"\x12\xc6\x18\x12\xc3\x18\x0a\xc0\x18");
    assert_eq!(record[3158..], *b"\x0a\x0e\x0a\x05label\x12\x05\x1a\x03\x0a\x01\x05");
    assert_eq!(find(&record, "label").unwrap(), Some(Values::Integers(vec![5])));
    let Some(Values::Floats(image)) = find(&record, "image").unwrap() else { panic!("an image is floats") };
    assert_eq!((image.len(), image[255], image[256]), (784, 255.0, 0.0));
}

#[test]
fn lists_that_are_not_packed_are_read_too() {
    // label: int64_list { 3, 300 }; x: float_list { 1.0 }
    let integers = b"\x0a\x05label\x12\x07\x1a\x05\x08\x03\x08\xac\x02";
    let floats = b"\x0a\x01x\x12\x07\x12\x05\x0d\x00\x00\x80\x3f";
    let entry = |bytes: &[u8]| [&[0x0a, bytes.len() as u8], bytes].concat();
    let features = [entry(integers), entry(floats)].concat();
    let record = [&[0x0a, features.len() as u8], &features[..]].concat();
    let expected = vec![("label", Values::Integers(vec![3, 300])), ("x", Values::Floats(vec![1.0]))];
    assert_eq!(read(&record).unwrap(), expected);
}

proptest! {
    #[test]
    fn a_written_example_is_read_back(
        integers in prop::collection::vec(any::<i64>(), 0..5),
        floats in prop::collection::vec(-1e30_f32..1e30, 0..200),
        text in prop::collection::vec(any::<u8>(), 0..300),
        name in "[a-z_é]{0,200}",
    ) {
        let mut writer = ExampleWriter::new();
        for _ in 0..2 {
            writer.integers("i", &integers).floats(&name, floats.iter().copied()).bytes("t", &text);
            let record = writer.finish();
            let expected = vec![
                ("i", Values::Integers(integers.clone())),
                (&name[..], Values::Floats(floats.clone())),
                ("t", Values::Bytes(vec![&text[..]])),
            ];
            prop_assert_eq!(read(record).unwrap(), expected);
        }
    }

    #[test]
    fn any_bytes_are_an_example_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(features) = read(&bytes) {
            for (name, _) in features {
                prop_assert!(find(&bytes, name).unwrap().is_some());
            }
        }
    }
}
