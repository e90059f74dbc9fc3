//! Tests `flexor sim`: the published experiment on the model, its tables and its report.

use std::fs;
use std::path::Path;

use regex::Regex;
use serde_json::{Value, json};

use crate::program::{root, run};

/// The policies in the order of a report: in tables, and in the names of files.
const POLICIES: [(&str, &str); 4] =
    [("off", "off"), ("EDL 2017", "edl-2017"), ("EDL with pod priority", "edl-with-priority"), ("Flexor", "flexor")];
/// The columns of the page, by their headings in the command's table.
const COLUMNS_OF_PAGE: [&str; 5] = ["PENDING", "LONGEST", "NEVER STARTED", "CPU 300-500 s", "JAIN AT 550 s"];
/// The experiment begins at second 0 and ends with second 550.
const SAMPLES: usize = 551;

/// The cells of a table's lines. Cells of text are apart by at least two spaces.
fn text_cells(text: &str) -> Vec<Vec<String>> {
    let gap = Regex::new(" {2,}").unwrap();
    text.lines().map(|line| gap.split(line.trim_end()).map(str::to_owned).collect()).collect()
}

fn markdown_cells(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").map(str::to_owned).collect()).collect()
}

/// The rows of the page's table for case 1: the policy, and its figures.
fn page_rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/guide/sharing.md")).unwrap();
    let rows = markdown_cells(&page).into_iter();
    let rows: Vec<Vec<String>> = rows.skip_while(|row| row[0] != "policy").skip(1).take(4).collect();
    assert_eq!(rows.len(), 4, "the page has the table");
    rows
}

/// Whether every tag of an XML document is closed, and no attribute is left open.
fn is_well_formed(document: &str) -> bool {
    let tag = Regex::new(r#"^<(/?)([a-z]+)((?: [a-zA-Z0-9:-]+="[^"<]*")*)(/?)>"#).unwrap();
    let (mut open, mut roots, mut rest) = (Vec::new(), 0, document.trim_end());
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        let is_text_fine = !text.contains(['>', '&']) && (text.trim().is_empty() || !open.is_empty());
        let Some(found) = tag.captures(&rest[at..]).filter(|_| is_text_fine) else { return false };
        match (&found[1], &found[4]) {
            ("", "") => open.push(found[2].to_owned()),
            ("", _) => {}
            (_, "") if open.pop().as_deref() == Some(&found[2]) => {}
            _ => return false,
        }
        roots += usize::from(open.is_empty());
        rest = &rest[at + found[0].len()..];
    }
    rest.is_empty() && open.is_empty() && roots == 1
}

fn assert_csv(folder: &Path, name: &str, jobs: usize) {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let mut lines = text.lines();
    let heading = "second,cpu_percent,trainers,pending_jobs,online_wanted,online_running,trainers_of_jobs";
    assert_eq!(lines.next(), Some(heading), "{name}");
    for (second, line) in lines.clone().enumerate() {
        let cells: Vec<&str> = line.split(',').collect();
        let [at, cpu, trainers, pending, wanted, running, of_jobs] = cells[..] else { panic!("{name}: {line}") };
        assert_eq!(at, second.to_string(), "{name}");
        assert!((0.0..=100.0).contains(&cpu.parse::<f64>().unwrap()), "{name}: {line}");
        let of_jobs: Vec<u32> = of_jobs.split('|').map(|count| count.parse().unwrap()).collect();
        assert_eq!(of_jobs.len(), jobs, "{name}: {line}");
        assert_eq!(trainers, of_jobs.iter().sum::<u32>().to_string(), "{name}: {line}");
        assert!(pending.parse::<usize>().unwrap() <= jobs, "{name}: {line}");
        assert_eq!((wanted, running), ("0", "0"), "{name}: case 1 has no online service");
    }
    assert_eq!(lines.count(), SAMPLES, "{name}");
}

/// Everything of one run, which takes about a second.
#[test]
fn case_1_gives_the_figures_of_the_page_and_a_report_with_those_that_were_published() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("of/case1");
    let ran = run(&["sim", "case1", "--report", report.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("wrote {}\n", report.join("report.md").display())), "{}", ran.stderr);

    // The table: every policy with both graces, and the figures that the page has.
    let table = text_cells(&ran.stdout);
    let (heading, rows) = table.split_first().unwrap();
    let expected = ["5 s", "30 s"].into_iter().flat_map(|grace| POLICIES.map(|(policy, _)| [policy, grace]));
    assert_eq!(rows.iter().map(|row| [row[0].as_str(), &row[1]]).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let figures = |policy: &str, grace: &str| -> Vec<String> {
        let row = rows.iter().find(|row| row[0] == policy && row[1] == grace).unwrap();
        let column = |name: &str| heading.iter().position(|known| known == name).unwrap();
        COLUMNS_OF_PAGE.iter().map(|name| row[column(name)].clone()).collect()
    };
    let policies = [
        ("jobs of a fixed size", "off", "5 s"),
        ("EDL's autoscaler of 2017", "EDL 2017", "5 s"),
        ("Flexor", "Flexor", "5 s"),
        ("Flexor, pods take 30 s to end", "Flexor", "30 s"),
    ];
    for (row, (name, policy, grace)) in page_rows().iter().zip(policies) {
        assert_eq!((row[0].as_str(), &row[1..]), (name, &figures(policy, grace)[..]));
    }

    // The report: the same table, the published figures, and a picture for each grace.
    let text = fs::read_to_string(report.join("report.md")).unwrap();
    assert_eq!(markdown_cells(&text), table);
    for part in [
        "# Case 1: twenty jobs on 2348 cores\n",
        "with EDL's autoscaler jobs were pending for 42.9 s (47.2) on average",
        "used 86 % (86.3) of the CPUs from 300 s to 500 s",
        "jobs of a fixed size were pending for 280.5 s (308.5), 14 of 20 until the end, and used 88 % (88.7)",
        "![Pods take 5 s to end](grace-5.svg)\n",
        "![Pods take 30 s to end](grace-30.svg)\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let json: Value = serde_json::from_slice(&fs::read(report.join("report.json")).unwrap()).unwrap();
    assert_eq!(json.as_array().unwrap().len(), rows.len());
    let mut files = vec!["report.json".to_owned(), "report.md".to_owned()];
    for grace in [5, 30] {
        let picture = format!("grace-{grace}.svg");
        let svg = fs::read_to_string(report.join(&picture)).unwrap();
        assert!(svg.starts_with("<svg ") && is_well_formed(&svg), "{picture}: {svg}");
        for (_, word) in POLICIES {
            assert!(svg.contains(&format!(">{word}</text>")), "{word} in {picture}");
            let name = format!("{word}-grace-{grace}.csv");
            assert_csv(&report, &name, 20);
            files.push(name);
        }
        files.push(picture);
    }
    files.sort();
    let mut written: Vec<String> =
        fs::read_dir(&report).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    written.sort();
    assert_eq!(written, files);
}

#[test]
fn programs_get_every_second_of_every_run() {
    let ran = run(&["sim", "tutorial", "--grace", "5", "-o", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let runs: Value = serde_json::from_str(&ran.stdout).unwrap();
    let policies: Vec<&str> = runs.as_array().unwrap().iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["off", "edl", "edl-with-priority", "planned"]);
    let planned = &runs[3];
    assert_eq!(
        (&planned["experiment"], &planned["grace"], &planned["total"]),
        (&json!("tutorial"), &json!(5), &json!(240_000))
    );
    let samples = planned["samples"].as_array().unwrap();
    assert!(samples.iter().enumerate().all(|(second, sample)| sample["second"] == second), "{samples:?}");
    assert_eq!((&samples[60]["trainers"], &samples[300]["trainers"]), (&json!([237, 0]), &json!([150, 84])));
}

#[test]
fn a_wrong_command_line_is_refused_and_a_report_that_cannot_be_written_is_told() {
    for (words, message) in [
        (&["sim"][..], "<CASE>"),
        (&["sim", "case3"], "[possible values: case1, case2, tutorial]"),
        (&["sim", "case1", "--grace", "601"], "601 is not in 0..=600"),
        (&["sim", "case1", "--grace", "5,soon"], "invalid value 'soon' for '--grace <SECONDS>'"),
        (&["sim", "case1", "-o", "yaml"], "invalid value 'yaml' for '--output <OUTPUT>'"),
        (&["sim", "case1", "case2"], "unexpected argument 'case2'"),
    ] {
        let ran = run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(message), "{words:?}: {}", ran.stderr);
    }
    let ran = run(&["sim", "tutorial", "--grace", "5", "--report", "/proc/report"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("error: cannot write the report into /proc/report: "), "{}", ran.stderr);
}
