//! Random manifests that keep every rule: written as YAML they are accepted, read back they are the same, and the job
//! they describe is always the same.

use flexor_dialects::manifest::{self, Subject, Verdict};
use flexor_model::Job;
use proptest::{
    prelude::*,
    test_runner::{FailurePersistence, FileFailurePersistence},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::random_specs;

fn judge<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(object: &T) -> Result<(), TestCaseError> {
    let yaml = serde_saphyr::to_string(object).unwrap();
    let again: T = serde_saphyr::from_str(&yaml).map_err(|error| TestCaseError::fail(format!("{error}\n{yaml}")))?;
    prop_assert_eq!(&again, object, "{}", yaml);
    prop_assert_eq!(serde_saphyr::to_string(&again).unwrap(), &*yaml);

    let mut report = manifest::check(yaml.as_bytes());
    prop_assert_eq!(&report, &manifest::check(yaml.as_bytes()));
    prop_assert_eq!(report.documents.len(), 1, "{:?}\n{}", report.unreadable, yaml);
    match report.documents.remove(0).verdict {
        Verdict::Accepted { subject, .. } => {
            if let Subject::Job(job) = &*subject {
                prop_assert_eq!(job.contradictions(), Vec::<String>::new());
                let json = serde_json::to_string(job).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Job>(&json).unwrap(), job);
            }
        }
        verdict => prop_assert!(false, "{:?}\n{}", verdict, yaml),
    }
    Ok(())
}

/// Failures that were found once are kept beside this file and tried first.
fn regressions() -> Option<Box<dyn FailurePersistence>> {
    Some(Box::new(FileFailurePersistence::WithSource("regressions")))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: regressions(), ..ProptestConfig::with_cases(96) })]

    #[test]
    fn a_dlrover_job_survives_yaml(job in random_specs::dlrover_job()) {
        judge(&job)?;
    }

    #[test]
    fn a_scale_plan_survives_yaml(plan in random_specs::scale_plan()) {
        judge(&plan)?;
    }

    #[test]
    fn a_torchelastic_job_survives_yaml(job in random_specs::torchelastic_job()) {
        judge(&job)?;
    }

    #[test]
    fn a_training_job_survives_yaml(job in random_specs::training_job()) {
        judge(&job)?;
    }
}
