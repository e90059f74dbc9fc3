//! The tables of `docs/reference/{elasticjob,scaleplan,torchelastic,trainingjob}.md`, from the definitions of the kinds.
//!
//! The pages are written by hand, with marks around the parts that are generated: `<!-- gen: spec -->` and
//! `<!-- gen: end -->`. Their manifests are checked too, so that a page cannot show one that is refused.

mod fields;

use anyhow::{Context, Result, bail, ensure};
use flexor_dialects::manifest;
use serde_json::Value;

use super::Files;
use super::table::table;
use crate::tree::Tree;

/// Each page with the definition that it is about.
const KINDS: [(&str, &str); 4] = [
    ("docs/reference/elasticjob.md", "elasticjobs.elastic.iml.github.io"),
    ("docs/reference/scaleplan.md", "scaleplans.elastic.iml.github.io"),
    ("docs/reference/torchelastic.md", "elasticjobs.elastic.pytorch.org"),
    ("docs/reference/trainingjob.md", "trainingjobs.paddlepaddle.org"),
];

const BEGIN: &str = "<!-- gen: ";
const END: &str = "<!-- gen: end -->";

/// What only the controller reads has one line.
const OPAQUE: [&str; 1] = ["status.flexor"];

pub(super) fn render(tree: &Tree) -> Result<Files> {
    let crds = flexor_dialects::crds();
    let mut files = Files::new();
    for (page, name) in KINDS {
        let crd = crds.iter().map(|(_, crd)| crd).find(|crd| crd.metadata.name.as_deref() == Some(name));
        let crd = serde_json::to_value(crd.with_context(|| format!("no kind is called {name}"))?)?;
        let text = tree.text(page)?.with_context(|| format!("{page} is no text"))?;
        check_manifests(&text).with_context(|| page.to_owned())?;
        files.push((page.into(), filled(&text, &crd).with_context(|| page.to_owned())?));
    }
    Ok(files)
}

/// The page with what its marks ask for.
fn filled(page: &str, crd: &Value) -> Result<String> {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, marked)) = rest.split_once(BEGIN) {
        let (part, marked) = marked.split_once(" -->").context("a mark without an end")?;
        let (_, after) = marked.split_once(END).with_context(|| format!("no {END} after the mark of {part}"))?;
        // Markdown needs the empty lines.
        text.push_str(&format!("{before}{BEGIN}{part} -->\n\n{}\n{END}", generated(part, crd)?));
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

fn generated(part: &str, crd: &Value) -> Result<String> {
    let version = &crd["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    match part {
        "names" => Ok(names(crd, version)),
        "spec" | "status" => {
            let columns = ["field", "type", "default", "meaning"];
            let columns = if part == "spec" { &columns[..] } else { &["field", "type", "meaning"] };
            let rows = fields::rows(part, &schema["properties"][part], &OPAQUE).into_iter().map(|field| {
                let mut row = vec![field.path, field.type_];
                row.extend((part == "spec").then_some(field.default));
                row.push(field.meaning);
                row
            });
            Ok(table(columns, rows))
        }
        "rules" => Ok(rules(schema)),
        _ => bail!("no part is called {part}; there are: names, spec, status, rules"),
    }
}

/// How the kind is called, and what `kubectl get` shows of it.
fn names(crd: &Value, version: &Value) -> String {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = &spec["names"];
    let code = |text: String| format!("`{text}`");
    let short: Vec<String> = list(&names["shortNames"]).map(text).map(code).collect();
    let shown = |is_wide: bool| {
        let columns =
            list(&version["additionalPrinterColumns"]).filter(|column| column["priority"].is_number() == is_wide);
        columns.map(|column| format!("`{}` ({})", text(&column["name"]), text(&column["jsonPath"]))).collect::<Vec<_>>()
    };
    let (always, wide) = (shown(false), shown(true));
    let mut rows = vec![
        ("API version", format!("`{}/{}`", text(&spec["group"]), text(&version["name"]))),
        ("kind", code(text(&names["kind"]))),
        ("name in full", code(format!("{}.{}", text(&names["plural"]), text(&spec["group"])))),
        ("short name", short.join(", ")),
        ("columns of `kubectl get`", always.join(", ")),
    ];
    if !wide.is_empty() {
        rows.push(("more with `-o wide`", wide.join(", ")));
    }
    if let Some(path) = version["subresources"]["scale"]["specReplicasPath"].as_str() {
        rows.push(("`kubectl scale` sets", code(path.to_owned())));
    }
    table(&["", ""], rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]))
}

/// The rules across fields that have a fixed message.
fn rules(schema: &Value) -> String {
    let lines = [("", schema), ("spec", &schema["properties"]["spec"])].into_iter().flat_map(|(prefix, part)| {
        list(&part["x-kubernetes-validations"]).filter_map(move |rule| {
            let message = rule["message"].as_str()?;
            let path = rule["fieldPath"].as_str().map(|path| format!("{prefix}{path}"));
            let field = path.map(|path| format!("`{}`: ", path.trim_start_matches('.'))).unwrap_or_default();
            Some(format!("- {field}{message}\n"))
        })
    });
    lines.collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Refuses a page with a manifest that `flexor validate` refuses.
fn check_manifests(page: &str) -> Result<()> {
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block);
    for block in blocks {
        let report = manifest::check(block.as_bytes());
        let errors: Vec<String> =
            report.findings().filter(|finding| finding.is_error()).map(ToString::to_string).collect();
        ensure!(errors.is_empty(), "its manifest is refused: {}\n{block}", errors.join("; "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd() -> Value {
        json!({ "spec": {
            "group": "example.org",
            "names": { "kind": "Job", "plural": "jobs", "shortNames": ["j"] },
            "versions": [{
                "name": "v1",
                "additionalPrinterColumns": [
                    { "name": "Phase", "jsonPath": ".status.phase" },
                    { "name": "Why", "jsonPath": ".status.reason", "priority": 1 },
                ],
                "subresources": { "scale": { "specReplicasPath": ".spec.replicas" } },
                "schema": { "openAPIV3Schema": { "x-kubernetes-validations": [
                    { "fieldPath": ".spec.name", "message": "must stay as it is" },
                ], "properties": {
                    "spec": {
                        "properties": { "replicas": { "type": "integer", "description": "How many. Without it: 1." } },
                        "x-kubernetes-validations": [{ "fieldPath": ".replicas", "message": "must be odd" }],
                    },
                    "status": { "properties": { "phase": { "type": "string", "description": "Pending." } } },
                } } },
            }],
        } })
    }

    #[test]
    fn what_lies_between_marks_is_replaced_and_the_rest_stays() {
        let page = "before\n<!-- gen: spec -->\nold\n<!-- gen: end -->\nafter\n";
        let expected = "before\n<!-- gen: spec -->\n\n| field | type | default | meaning |\n| --- | --- | --- | --- |\n\
                        | `replicas` | integer | 1 | How many. |\n\n<!-- gen: end -->\nafter\n";
        assert_eq!(filled(page, &crd()).unwrap(), expected);
        assert_eq!(filled(expected, &crd()).unwrap(), expected, "a second time changes nothing");
    }

    #[test]
    fn names_columns_and_rules_are_the_definitions() {
        let page = filled("<!-- gen: names --><!-- gen: end --><!-- gen: rules --><!-- gen: end -->", &crd()).unwrap();
        for line in [
            "| API version | `example.org/v1` |",
            "| short name | `j` |",
            "| columns of `kubectl get` | `Phase` (.status.phase) |",
            "| more with `-o wide` | `Why` (.status.reason) |",
            "| `kubectl scale` sets | `.spec.replicas` |",
            "- `spec.replicas`: must be odd",
            "- `spec.name`: must stay as it is",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
    }

    #[test]
    fn an_unknown_or_open_mark_is_an_error() {
        for page in ["<!-- gen: columns --><!-- gen: end -->", "<!-- gen: spec -->\n"] {
            assert!(filled(page, &crd()).is_err(), "{page}");
        }
    }

    #[test]
    fn a_page_with_a_manifest_that_is_refused_is_an_error() {
        let manifest = "```yaml\napiVersion: elastic.iml.github.io/v1alpha1\nkind: ScalePlan\nmetadata: {name: p}\nspec: {ownerJob: j}\n```\n";
        check_manifests(manifest).unwrap();
        let error = check_manifests(&manifest.replace("ownerJob", "ownerjob")).unwrap_err().to_string();
        assert!(error.contains("is refused"), "{error}");
    }
}
