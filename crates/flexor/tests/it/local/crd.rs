//! `flexor crd`.

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
fn definitions_as_json_are_one_list() {
    let ran = run(&["crd", "-o", "json", "--dialect", "dlrover"]);
    let list: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&"List".into(), 2));
}
