//! Any bytes are calls of ElasticDL's wire or refused: never a panic, never memory for what is not there. What is refused
//! changes nothing, and what is taken changes no shape.
#![no_main]

use std::num::NonZeroU32;

use flexor_ps::elasticdl::{Mode, Options, Parameters};
use flexor_ps::spec::Optimizer;
use flexor_wire::elasticdl as wire;
use libfuzzer_sys::fuzz_target;
use prost::Message;

/// A server with a variable `w:0` of 4 × 2 and a table `e` of width 4.
const MODEL: &[u8] = include_bytes!("../corpus/wire_tensors/model");

fn server(mode: Mode) -> Parameters {
    let parameters =
        Parameters::new(Options { optimizer: Optimizer::adam(0.1), mode, seed: 1 }).expect("no model is one");
    let model = wire::Model::decode(MODEL).expect("the model of the corpus");
    parameters.push_model(&model).expect("the model of the corpus can be");
    parameters
}

fn values(parameters: &Parameters) -> (wire::PullDenseParametersResponse, wire::TensorProto) {
    let dense = parameters.pull_dense(-1).expect("it has a model");
    (dense, parameters.pull_rows("e", &[0, 1, -1]).expect("it has the table"))
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(model) = wire::Model::decode(bytes) {
        let parameters = server(Mode::Async { modulates_rate: true });
        let before = values(&parameters);
        let _ = parameters.push_table_infos(&model);
        assert_eq!(values(&parameters), before);
        let options = Options { optimizer: Optimizer::sgd(0.1), mode: Mode::Async { modulates_rate: false }, seed: 1 };
        let fresh = Parameters::new(options).expect("no model is one");
        let taken = fresh.push_model(&model).is_ok();
        assert_eq!(fresh.pull_dense(-1).expect("it can be asked").initialized, taken);
    }
    let Ok(request) = wire::PushGradientsRequest::decode(bytes) else { return };
    let sync = Mode::Sync { grads_to_wait: NonZeroU32::MIN, tolerance: u32::MAX };
    for mode in [Mode::Async { modulates_rate: true }, sync] {
        let parameters = server(mode);
        let before = values(&parameters);
        match parameters.push_gradients(&request) {
            Err(_) => assert_eq!(values(&parameters), before),
            Ok(outcome) => {
                assert_eq!((outcome.accepted, outcome.version), (true, before.0.version + 1));
                let sizes = |(dense, rows): &(wire::PullDenseParametersResponse, wire::TensorProto)| {
                    let tensors = dense.dense_parameters.values().chain([rows]);
                    tensors.map(|tensor| tensor.tensor_content.len()).collect::<Vec<_>>()
                };
                assert_eq!(sizes(&values(&parameters)), sizes(&before));
            }
        }
    }
});
