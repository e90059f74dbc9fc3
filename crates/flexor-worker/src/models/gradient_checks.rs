//! Checks every model against its definition: scores and loss computed naively in double precision, and the slope of
//! that loss along every single parameter.

mod definition;

use std::cell::Cell;

use flexor_ps::spec::Optimizer;
use proptest::prelude::*;

use self::definition::{Definition, name_of_row, named};
use super::{Architecture, Cross, Gradients, Hidden, Model, Step};
use crate::{Batch, Inputs, Lookup};

/// Reproducible pseudo-random numbers, so that a failure can be repeated.
#[derive(Debug, Clone)]
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * (self.below(1 << 20) as f32 / (1 << 20) as f32)
    }
}

/// A model with a random batch and random parameters.
struct Fixture {
    architecture: Architecture,
    model: Box<dyn Model>,
    batch: Batch,
    lookup: Lookup,
    variables: Vec<Vec<f32>>,
    rows: Vec<Vec<f32>>,
}

impl Fixture {
    fn new(architecture: &Architecture, inputs: Inputs, records: usize, seed: u64) -> Self {
        let mut numbers = RandomNumbers(seed);
        let model = architecture.build(inputs).unwrap();
        let mut batch = Batch::new(inputs);
        for _ in 0..records {
            let label = numbers.below(inputs.classes.into()) as u32;
            let values: Vec<f32> = (0..inputs.numbers).map(|_| numbers.between(-1.0, 1.0)).collect();
            // Few keys, so that several records, and several fields of one record, share rows.
            let keys: Vec<u64> = (0..inputs.fields).map(|_| numbers.below(5)).collect();
            batch.push(label, &values, &keys);
        }
        let mut lookup = Lookup::default();
        model.look_up(&batch, &mut lookup);
        let declaration = model.declaration();
        let mut values = |count: usize| (0..count).map(|_| numbers.between(-0.7, 0.7)).collect::<Vec<f32>>();
        let variables = declaration.variables.iter().map(|variable| values(variable.elements() as usize)).collect();
        let tables = declaration.tables.iter().zip(lookup.tables());
        let rows = tables.map(|(table, lookup)| values(lookup.keys().len() * table.dim as usize)).collect();
        Self { architecture: architecture.clone(), model, batch, lookup, variables, rows }
    }

    fn gradients(&mut self, gradients: &mut Gradients) {
        let Self { model, batch, lookup, variables, rows, .. } = self;
        model.gradients(Step { batch, lookup, variables, rows }, gradients);
    }

    fn definition(&self) -> Definition<'_> {
        Definition {
            architecture: &self.architecture,
            batch: &self.batch,
            parameters: named(self.model.declaration(), &self.lookup, &self.variables, &self.rows),
            nearest_kink: Cell::new(f64::INFINITY),
        }
    }

    /// Whether the loss has a slope here: no parameter that moves a little switches a hidden unit on or off.
    fn has_slope(&self) -> bool {
        let definition = self.definition();
        definition.loss();
        definition.nearest_kink.get() > 1e-4
    }
}

/// Compares the gradients of a model with slopes of its definition.
fn check(architecture: &Architecture, inputs: Inputs, records: usize, seed: u64) {
    let mut fixtures = (0..100).map(|more| Fixture::new(architecture, inputs, records, seed.wrapping_add(more)));
    let mut made_up = fixtures.find(Fixture::has_slope).expect("most have a slope");
    let mut gradients = Gradients::default();
    made_up.gradients(&mut gradients);
    let mut definition = made_up.definition();
    let loss = definition.loss();
    assert!((gradients.loss - loss).abs() < 1e-4, "{architecture}: {} is not {loss}", gradients.loss);
    let declaration = made_up.model.declaration();
    for (variable, gradients) in declaration.variables.iter().zip(&gradients.variables) {
        compare(&mut definition, &variable.name, gradients);
    }
    for ((table, gradients), lookup) in declaration.tables.iter().zip(&gradients.rows).zip(made_up.lookup.tables()) {
        for (key, gradients) in lookup.keys().iter().zip(gradients.chunks_exact(table.dim as usize)) {
            compare(&mut definition, &name_of_row(&table.name, *key), gradients);
        }
    }
}

fn compare(definition: &mut Definition<'_>, name: &str, gradients: &[f32]) {
    const ASIDE: f64 = 1e-6;
    for (at, gradient) in gradients.iter().enumerate() {
        let mut moved = |by: f64| {
            let before = definition.parameters[name][at];
            definition.parameters.get_mut(name).unwrap()[at] += by;
            let loss = definition.loss();
            definition.parameters.get_mut(name).unwrap()[at] = before;
            loss
        };
        let slope = (moved(ASIDE) - moved(-ASIDE)) / (2.0 * ASIDE);
        let gradient = f64::from(*gradient);
        let close = (gradient - slope).abs() < 1e-5 + 1e-4 * slope.abs();
        let architecture = definition.architecture;
        assert!(close, "{architecture}: {name}[{at}] has gradient {gradient} and slope {slope}");
    }
}

fn hidden() -> impl Strategy<Value = Hidden> {
    prop::collection::vec(1..9_usize, 0..3).prop_map(Hidden)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn logistic_goes_down_its_slope(fields in 0..4_usize, numbers in 0..4_usize, records in 1..9_usize, seed: u64) {
        check(&Architecture::Logistic, Inputs { fields, numbers, classes: 2 }, records, seed);
    }

    #[test]
    fn wide_deep_goes_down_its_slope(
        (fields, numbers) in (2..5_usize, 0..4_usize), dim in 1..6_usize, hidden in hidden(), crossed: bool,
        records in 1..9_usize, seed: u64,
    ) {
        let crosses = if crossed { vec![Cross(0, 1), Cross(1, 0)] } else { Vec::new() };
        check(&Architecture::WideDeep { dim, hidden, crosses }, Inputs { fields, numbers, classes: 2 }, records, seed);
    }

    #[test]
    fn deepfm_goes_down_its_slope(
        (fields, numbers) in (1..5_usize, 0..4_usize), dim in 1..6_usize, hidden in hidden(),
        records in 1..9_usize, seed: u64,
    ) {
        check(&Architecture::DeepFm { dim, hidden }, Inputs { fields, numbers, classes: 2 }, records, seed);
    }

    #[test]
    fn mlp_goes_down_its_slope(
        numbers in 1..12_usize, classes in 2..6_u32, hidden in hidden(), records in 1..9_usize, seed: u64,
    ) {
        check(&Architecture::Mlp { hidden }, Inputs { fields: 0, numbers, classes }, records, seed);
    }

    #[test]
    fn the_same_step_gives_the_same_bits_whatever_was_computed_before(
        which in 0..4_usize, records in 0..40_usize, before in prop::collection::vec((0..60_usize, any::<u64>()), 0..4),
        seed: u64,
    ) {
        let (architecture, inputs) = every_architecture().swap_remove(which);
        let mut fresh = Fixture::new(&architecture, inputs, records, seed);
        let mut wanted = Gradients::default();
        fresh.gradients(&mut wanted);
        let mut again = Fixture::new(&architecture, inputs, records, seed);
        let mut found = Gradients::default();
        for (records, seed) in before {
            let mut other = Fixture::new(&architecture, inputs, records, seed);
            std::mem::swap(&mut other.model, &mut again.model);
            other.gradients(&mut found);
            // The lookup was used before, too.
            let mut lookup = other.lookup;
            other.model.look_up(&again.batch, &mut lookup);
            again.lookup = lookup;
            again.model = other.model;
        }
        again.gradients(&mut found);
        prop_assert_eq!(bits(&found), bits(&wanted));
    }
}

fn every_architecture() -> Vec<(Architecture, Inputs)> {
    let clicks = Inputs { fields: 3, numbers: 2, classes: 2 };
    let digits = Inputs { fields: 0, numbers: 11, classes: 4 };
    let described = ["logistic", "wide-deep:dim=3,hidden=9x4,crosses=0x2", "deepfm:dim=3,hidden=9x4", "mlp:hidden=9"];
    let inputs = [clicks, clicks, clicks, digits];
    described.into_iter().map(|text| text.parse().unwrap()).zip(inputs).collect()
}

fn bits(gradients: &Gradients) -> (u64, Vec<u32>) {
    let all = gradients.variables.iter().chain(&gradients.rows).chain([&gradients.scores]);
    (gradients.loss.to_bits(), all.flatten().map(|value| value.to_bits()).collect())
}

#[test]
fn a_batch_without_records_moves_nothing() {
    for (architecture, inputs) in every_architecture() {
        let mut made_up = Fixture::new(&architecture, inputs, 0, 1);
        let mut gradients = Gradients::default();
        made_up.gradients(&mut gradients);
        assert_eq!(gradients.loss, 0.0);
        assert!(gradients.variables.iter().flatten().all(|gradient| *gradient == 0.0), "{architecture}");
    }
}

#[test]
fn scores_are_those_that_gradients_come_from() {
    for (architecture, inputs) in every_architecture() {
        let mut made_up = Fixture::new(&architecture, inputs, 13, 5);
        let mut gradients = Gradients::default();
        made_up.gradients(&mut gradients);
        let Fixture { model, batch, lookup, variables, rows, .. } = &mut made_up;
        assert_eq!(model.scores(Step { batch, lookup, variables, rows }), gradients.scores, "{architecture}");
        assert!(model.declaration().with(Optimizer::sgd(0.1), 1).check().is_ok());
    }
}

#[test]
#[should_panic(expected = "elements of linear/bias")]
fn a_step_of_another_model_is_refused() {
    let (architecture, inputs) = every_architecture().swap_remove(0);
    let mut made_up = Fixture::new(&architecture, inputs, 3, 1);
    made_up.variables[1].push(0.0);
    made_up.gradients(&mut Gradients::default());
}
