//! Checks that each input in the corpus of the fuzz target `wire_tensors` behaves as its name says.

use std::fs;
use std::path::Path;

use flexor_wire::elasticdl as wire;
use prost::Message;

use super::{GradientsOutcome, Mode, Options, Parameters, Refusal, TensorError};
use crate::push::BadRequest;
use crate::spec::Optimizer;

fn seed(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/wire_tensors").join(name)).unwrap()
}

fn server() -> Parameters {
    let mode = Mode::Async { modulates_rate: false };
    let parameters = Parameters::new(Options { optimizer: Optimizer::sgd(0.1), mode, seed: 1 }).unwrap();
    parameters.push_model(&wire::Model::decode(seed("model").as_slice()).unwrap()).unwrap();
    parameters
}

fn pushed(name: &str) -> Result<GradientsOutcome, Refusal> {
    server().push_gradients(&wire::PushGradientsRequest::decode(seed(name).as_slice()).unwrap())
}

#[test]
fn valid_pushes_of_the_corpus_are_accepted() {
    for name in ["whole", "rows_of_a_variable", "empty"] {
        assert_eq!(
            pushed(name).unwrap(),
            GradientsOutcome { accepted: true, version: 1, made_version: true },
            "{name}"
        );
    }
    server().push_table_infos(&wire::Model::decode(seed("infos").as_slice()).unwrap()).unwrap();
}

#[test]
fn invalid_tensors_of_the_corpus_are_rejected() {
    for name in ["three_bytes_for_eight", "a_million", "empty_tensor", "huge_shape", "negative_side"] {
        assert!(matches!(pushed(name), Err(Refusal::Tensor { .. })), "{name}");
    }
    let content = TensorError::Content { shape: vec![8], needs: 32, bytes: 3 };
    assert_eq!(pushed("three_bytes_for_eight"), Err(Refusal::Tensor { name: "w:0".to_owned(), why: content }));
    for name in ["too_short", "one_too_long"] {
        assert!(matches!(pushed(name), Err(Refusal::Shape { .. })), "{name}");
    }
    assert!(matches!(pushed("width_three"), Err(Refusal::Rows { ids: 1, width: 4, .. })));
    assert!(matches!(pushed("row_99"), Err(Refusal::Row { rows: 4, id: 99, .. })));
    assert_eq!(pushed("unknown_name"), Err(Refusal::Unknown("v:0".to_owned())));
    assert!(matches!(pushed("not_a_number"), Err(Refusal::Bad(BadRequest::NotFinite { .. }))));
}
