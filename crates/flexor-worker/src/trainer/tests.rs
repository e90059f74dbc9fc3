use std::fs;

use super::*;

/// A plan for these files; the folder is removed with the first value.
fn plan(table: &str, test: &str) -> (tempfile::TempDir, TrainingPlan) {
    let folder = tempfile::tempdir().unwrap();
    let [data, test_data] = [("table.csv", table), ("test.csv", test)].map(|(name, content)| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        vec![path]
    });
    let plan = TrainingPlan {
        architecture: "logistic".parse().unwrap(),
        optimizer: Optimizer::sgd(0.1),
        seed: 1,
        data,
        test_data,
        schema: None,
        csv_header: CsvHeader::FirstLine,
        on_damage: OnDamage::Skip,
        batch: 8,
        batch_delay: std::time::Duration::ZERO,
        epochs: 1,
        non_finite: NonFinite::Refuse,
        evaluations: None,
        by_staleness: false,
        steps: None,
    };
    (folder, plan)
}

/// The refusal, which must come before any connection.
async fn refusal(plan: &TrainingPlan) -> String {
    let worker = WorkerName { name: "worker-0".to_owned(), incarnation: 1 };
    let context = WorkerContext { worker, master: "127.0.0.1:1".to_owned(), token: None, dialer: Dialer::default() };
    let trained = train(plan, &context, |_| {});
    let trained = tokio::time::timeout(Duration::from_secs(30), trained).await.expect("refused without a connection");
    trained.unwrap_err().to_string()
}

#[tokio::test]
async fn data_without_records_is_refused() {
    let (header, row) = ("label,n0,c0\n", "1,0.5,a\n");
    for (table, test, describe_paths) in [("", row, "table.csv"), (row, "", "test.csv")] {
        let (_folder, plan) = plan(&[header, table].concat(), &[header, test].concat());
        let refused = refusal(&plan).await;
        assert!(refused.starts_with("there are no records in ") && refused.contains(describe_paths), "{refused}");
    }
}

#[tokio::test]
async fn the_header_of_test_data_is_looked_at_too() {
    let names = "label,age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,\
                 capital_gain,capital_loss,hours_per_week,native_country\n";
    let person =
        "1,39,State-gov,77516,Bachelors,13,Never-married,Adm-clerical,Not-in-family,White,Male,2174,0,40,Cuba\n";
    let (_folder, plan) = plan(&[names, person].concat(), &[&names.replace("race", "shoe_size"), person].concat());
    let refused = refusal(&plan).await;
    assert!(
        refused.contains("test.csv has column shoe_size at position 10, where schema census has race"),
        "{refused}"
    );
}
