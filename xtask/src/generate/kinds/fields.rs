//! The fields below a schema, one row each.

use serde_json::Value;

/// One field, as a table shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// `replicaSpecs.ROLE.replicas`, as code.
    pub(super) path: String,
    pub(super) type_: String,
    /// Empty where the field may be left out and nothing takes its place.
    pub(super) default: String,
    pub(super) meaning: String,
}

/// The fields of `spec` or `status`; those below an opaque path are left out.
pub(super) fn rows(root: &str, schema: &Value, opaque: &[&str]) -> Vec<Field> {
    let mut rows = Vec::new();
    add(&mut rows, root, "", schema, opaque);
    rows
}

fn add(rows: &mut Vec<Field>, root: &str, prefix: &str, schema: &Value, opaque: &[&str]) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let description = field["description"].as_str().unwrap_or_default();
        let (meaning, default) = split_default(description);
        rows.push(Field {
            path: format!("`{path}`"),
            type_: type_of(field),
            default: if required.contains(&name.as_str()) { "required".to_owned() } else { default },
            meaning,
        });
        if is_template(field) || opaque.contains(&format!("{root}.{path}").as_str()) {
            continue;
        }
        add(rows, root, &path, field, opaque);
        add(rows, root, &format!("{path}[]"), &field["items"], opaque);
        add(rows, root, &format!("{path}.{}", key_of(description)), &field["additionalProperties"], opaque);
    }
}

/// What a map is by.
fn key_of(description: &str) -> &'static str {
    if description.to_lowercase().contains("role") { "ROLE" } else { "KEY" }
}

/// A schema that has pods in it is Kubernetes' own, which documents it.
fn is_template(schema: &Value) -> bool {
    schema.pointer("/properties/spec/properties/containers").is_some()
}

fn type_of(schema: &Value) -> String {
    let choices = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let choices: Vec<String> = choices.map(|choice| format!("`{choice}`")).collect();
    if !choices.is_empty() {
        return choices.join(", ");
    }
    if is_template(schema) {
        return "PodTemplateSpec".to_owned();
    }
    if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("[KMGTPE]i")) {
        return "quantity".to_owned();
    }
    match (schema["type"].as_str(), &schema["additionalProperties"], &schema["items"]) {
        (Some("object"), Value::Object(_), _) => {
            format!("map of {}", plural(&type_of(&schema["additionalProperties"])))
        }
        (Some("array"), _, items) => format!("list of {}", plural(&type_of(items))),
        (Some("string"), _, _) if schema["format"] == "date-time" => "time".to_owned(),
        (Some("integer"), _, _) => format!("integer{}", bounds(schema)),
        (Some(other), _, _) => other.to_owned(),
        (None, _, _) => "any".to_owned(),
    }
}

fn plural(type_: &str) -> String {
    match type_ {
        "quantity" => "quantities".to_owned(),
        "any" => type_.to_owned(),
        other => format!("{other}s"),
    }
}

fn bounds(schema: &Value) -> String {
    match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(", at least {least}"),
        (None, Some(most)) => format!(", at most {most}"),
        (None, None) => String::new(),
    }
}

/// The meaning without its sentence about the default, and the default. Descriptions say it in one of two forms.
fn split_default(description: &str) -> (String, String) {
    if let Some((before, rest)) = description.split_once("Without it: ") {
        let (default, after) = rest.split_once(". ").unwrap_or((rest.trim_end_matches('.'), ""));
        let meaning = [before.trim_end(), after].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
        return (meaning.join(" "), default.to_owned());
    }
    let said = description.split_once(" where nothing is said").and_then(|(before, _)| before.rsplit_once("; "));
    (description.to_owned(), said.map(|(_, default)| default.to_owned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(schema: &Value) -> Vec<String> {
        let shown = |field: Field| format!("{} {} [{}] {}", field.path, field.type_, field.default, field.meaning);
        rows("status", schema, &["status.flexor"]).into_iter().map(shown).collect()
    }

    #[test]
    fn maps_lists_and_objects_are_opened_and_templates_are_not() {
        let schema = json!({
            "required": ["roles"],
            "properties": {
                "roles": {
                    "type": "object", "description": "By role.",
                    "additionalProperties": { "type": "object", "properties": {
                        "replicas": { "type": "integer", "minimum": 0.0, "maximum": 9.0 },
                        "template": { "type": "object", "properties": {
                            "spec": { "properties": { "containers": { "type": "array" } } },
                        } },
                    } },
                },
                "pods": { "type": "array", "items": { "type": "object", "properties": { "name": { "type": "string" } } } },
                "flexor": { "type": "object", "properties": { "version": { "type": "integer" } } },
            },
        });
        let expected = [
            "`roles` map of objects [required] By role.",
            "`roles.ROLE.replicas` integer, 0 to 9 [] ",
            "`roles.ROLE.template` PodTemplateSpec [] ",
            "`pods` list of objects [] ",
            "`pods[].name` string [] ",
            "`flexor` object [] ",
        ];
        assert_eq!(shown(&schema), expected);
    }

    #[test]
    fn types_say_what_may_be_written() {
        let quantity = json!({ "pattern": "^[0-9]+([KMGTPE]i)?$" });
        for (schema, expected) in [
            (json!({ "type": "string", "enum": ["All", "None"] }), "`All`, `None`"),
            (json!({ "type": "object", "additionalProperties": quantity }), "map of quantities"),
            (json!({ "type": "string", "format": "date-time" }), "time"),
            (json!({ "type": "integer", "minimum": 1.0 }), "integer, at least 1"),
            (json!({ "type": "array", "items": { "type": "string" } }), "list of strings"),
        ] {
            assert_eq!(type_of(&schema), expected);
        }
    }

    #[test]
    fn the_default_is_read_from_the_description() {
        for (description, meaning, default) in [
            ("How many. Without it: 1.", "How many.", "1"),
            ("How many. Without it: 1. Change it to scale.", "How many. Change it to scale.", "1"),
            ("How many are kept; 3 where nothing is said.", "How many are kept; 3 where nothing is said.", "3"),
            ("Without it, the master does.", "Without it, the master does.", ""),
        ] {
            assert_eq!(split_default(description), (meaning.to_owned(), default.to_owned()));
        }
    }
}
