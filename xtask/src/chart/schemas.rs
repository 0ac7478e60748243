//! Schemas of Kubernetes for kubeconform, made of what each release of Kubernetes says of its API (OpenAPI), which is among its sources.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const DEFINITIONS: &str = "#/definitions/";

/// Writes a schema for each kind into `folder`, by the names that kubeconform looks for; answers how many.
pub fn write(api: &Value, folder: &Path) -> Result<usize, String> {
    let definitions = api["definitions"].as_object().ok_or("the API has no definitions")?;
    let mut count = 0;
    for (name, definition) in definitions {
        for kind in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            // Only then is it an object of its own.
            if definition["properties"]["metadata"].is_object() {
                let path = folder.join(file_name(kind));
                let schema = schema(definitions, name).to_string();
                std::fs::write(&path, schema).map_err(|error| format!("{}: {error}", path.display()))?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// kubeconform's `{{.ResourceKind}}{{.KindSuffix}}.json`: of a group, the first part.
fn file_name(kind: &Value) -> String {
    let text = |name: &str| kind[name].as_str().unwrap_or_default().to_lowercase();
    let words = [text("kind"), text("group").split('.').next().unwrap_or_default().to_owned(), text("version")];
    format!("{}.json", words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-"))
}

/// A definition and those that it leads to, in which no field is allowed that they do not name.
fn schema(definitions: &Map<String, Value>, name: &str) -> Value {
    let (mut reached, mut next) = (BTreeSet::new(), vec![name.to_owned()]);
    let mut own = Map::new();
    while let Some(name) = next.pop() {
        if let Some(definition) = definitions.get(&name).filter(|_| reached.insert(name.clone())) {
            let strict = strict(definition);
            references(&strict, &mut next);
            own.insert(name, strict);
        }
    }
    json!({ "$ref": format!("{DEFINITIONS}{name}"), "definitions": own })
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            found.extend(reference.and_then(|to| to.strip_prefix(DEFINITIONS)).map(str::to_owned));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// What is known of a value, as JSON Schema has it.
fn strict(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            if fields.get("format").is_some_and(|format| format == "int-or-string") {
                return json!({ "type": ["string", "integer"] });
            }
            let is_quantity = fields.get("description").and_then(Value::as_str).is_some_and(of_quantity);
            if is_quantity && fields.get("type").is_some_and(|kind| kind == "string") {
                return json!({ "type": ["string", "number"] });
            }
            let kept = fields.iter().filter(|(name, field)| *name != "format" || !field.is_string());
            let mut kept: Map<String, Value> = kept.map(|(name, field)| (name.clone(), strict(field))).collect();
            if fields.get("properties").is_some_and(|properties| properties.as_object().is_some_and(is_of_fields)) {
                kept.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            Value::Object(kept)
        }
        Value::Array(items) => items.iter().map(strict).collect(),
        other => other.clone(),
    }
}

/// Whether the value of `properties` lists fields: a field may have that name itself.
fn is_of_fields(properties: &Map<String, Value>) -> bool {
    properties.values().all(Value::is_object)
}

fn of_quantity(description: &str) -> bool {
    description.starts_with("Quantity is a fixed-point representation of a number.")
}

#[cfg(test)]
mod tests {
    use super::{file_name, schema};
    use serde_json::{Value, json};

    #[test]
    fn a_schema_has_what_it_leads_to_and_allows_nothing_else() {
        let api = json!({
            "v1.Pod": { "type": "object", "properties": { "spec": { "$ref": "#/definitions/v1.Spec" } } },
            "v1.Spec": { "type": "object", "properties": {
                "port": { "type": "string", "format": "int-or-string" },
                "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                "again": { "$ref": "#/definitions/v1.Spec" },
            } },
            "v1.Other": {},
        });
        let schema = schema(api.as_object().expect("an object"), "v1.Pod");
        assert_eq!(schema["$ref"], "#/definitions/v1.Pod");
        let definitions = schema["definitions"].as_object().expect("definitions");
        assert_eq!(definitions.keys().collect::<Vec<_>>(), ["v1.Pod", "v1.Spec"]);
        assert_eq!(definitions["v1.Spec"]["additionalProperties"], Value::Bool(false));
        assert_eq!(definitions["v1.Spec"]["properties"]["port"], json!({ "type": ["string", "integer"] }));
        assert_eq!(definitions["v1.Spec"]["properties"]["labels"]["additionalProperties"], json!({ "type": "string" }));
        let kind = json!({ "group": "networking.k8s.io", "kind": "NetworkPolicy", "version": "v1" });
        assert_eq!(file_name(&kind), "networkpolicy-networking-v1.json");
        assert_eq!(file_name(&json!({ "group": "", "kind": "Service", "version": "v1" })), "service-v1.json");
    }
}
