//! Tests of `flexor crd`.

use crate::program::run;

#[test]
fn all_definitions_are_printed_or_those_of_one_dialect() {
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("  name: "));
        lines.map(str::to_owned).collect()
    };
    let all = run(&["crd"]);
    assert_eq!(all.code, 0);
    assert_eq!(
        names(&all.stdout),
        [
            "elasticjobs.elastic.iml.github.io",
            "scaleplans.elastic.iml.github.io",
            "elasticjobs.elastic.pytorch.org",
            "trainingjobs.paddlepaddle.org"
        ]
    );
    assert_eq!(names(&run(&["crd", "--dialect", "edl"]).stdout), ["trainingjobs.paddlepaddle.org"]);
}

#[test]
fn every_dialect_with_definitions_can_be_chosen() {
    let offered = run(&["crd", "--help"]).stdout;
    for (dialect, crd) in flexor_dialects::crds() {
        let list = run(&["crd", "--dialect", dialect]);
        assert_eq!(list.code, 0, "{dialect}");
        assert!(list.stdout.contains(&crd.spec.names.plural), "{dialect}");
        assert!(offered.contains(dialect) && offered.contains(&crd.spec.names.kind), "{offered}");
    }
}

#[test]
fn definitions_as_json_are_one_list() {
    let ran = run(&["crd", "-o", "json", "--dialect", "dlrover"]);
    let list: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&"List".into(), 2));
}
