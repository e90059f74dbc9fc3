//! Parses `docs/tutorials/listings.md`: the expected listing after every step of the tutorials.

use crate::program::root;

const TODAY: &str = " *(today)*";
const PASSING: &str = " *(passing)*";

/// One table.
pub struct Section {
    pub title: String,
    pub rows: Vec<Row>,
}

/// One step.
#[derive(Clone)]
pub struct Row {
    pub step: String,
    /// It is true on a cluster already.
    pub today: bool,
    /// It may be over before the test can list it.
    pub passing: bool,
    pub commands: Vec<String>,
    pub lists: Vec<String>,
}

/// All tables of the page.
pub fn sections() -> Vec<Section> {
    let page = std::fs::read_to_string(root().join("docs/tutorials/listings.md")).unwrap();
    let mut sections: Vec<Section> = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title: title.to_owned(), rows: Vec::new() });
        } else if let (Some(section), Some(row)) = (sections.last_mut(), row(line)) {
            section.rows.push(row);
        }
    }
    sections
}

fn row(line: &str) -> Option<Row> {
    let entries = |cell: &str| -> Vec<String> {
        cell.split("<br>").map(|entry| entry.trim().trim_matches('`').to_owned()).collect()
    };
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [step, commands, lists] = cells[..] else { return None };
    if step == "step" {
        return None;
    }
    let (today, passing) = (step.contains(TODAY), step.contains(PASSING));
    let step = step.replace(TODAY, "").replace(PASSING, "");
    Some(Row { step, today, passing, commands: entries(commands), lists: entries(lists) })
}

/// The entries that a pattern with `{0..2}` represents.
pub fn expanded(entry: &str) -> Vec<String> {
    let Some((before, (numbers, after))) =
        entry.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![entry.to_owned()];
    };
    let (first, last) = numbers.split_once("..").unwrap();
    let numbers = first.parse::<u32>().unwrap()..=last.parse().unwrap();
    numbers.map(|number| format!("{before}{number}{after}")).collect()
}

/// Whether an entry matches a line, word by word; `*` is any word.
pub fn stands_for(entry: &str, line: &str) -> bool {
    let (entry, line): (Vec<_>, Vec<_>) = (entry.split(' ').collect(), line.split_whitespace().collect());
    entry.len() == line.len() && entry.iter().zip(line).all(|(wanted, found)| *wanted == "*" || *wanted == found)
}
