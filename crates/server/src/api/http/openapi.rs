//! The OpenAPI document, made from the table of routes and that of schemas.

use super::routes::{Does, ROUTES, Route};
use super::schemas::{Field, SCHEMAS};
use serde_json::{Map, Value, json};

/// The whole document.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation(route);
    }
    let schemas: Map<String, Value> =
        SCHEMAS.iter().map(|schema| (schema.name.to_owned(), object(schema.fields, schema.required))).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Basalt admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What `basalt ctl` does, over HTTP, at any node of a store. The password that clients need \
                            (requirepass) protects it. What changes something has to be sent with the header \
                            content-type: application/json. Backups are not made by nodes: `basalt ctl backup` and \
                            `basalt ctl restore` read and write the store with its commands (KV.BACKUP), from wherever \
                            the backup is kept. Nor is a lost metadata group recovered here: that is \
                            `basalt ctl plan unsafe-recover`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"basic": []}, {"bearer": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    })
}

fn operation(route: &Route) -> Value {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.map(|name| {
        json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}, "description": path_help(name)})
    });
    let in_query = route.query.iter().map(|(name, help)| {
        json!({"name": name, "in": "query", "required": false, "schema": {"type": "integer", "minimum": 0}, "description": help})
    });
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "responses": responses(route),
    });
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some(body) = route.body {
        let required = SCHEMAS.iter().any(|schema| schema.name == body && !schema.required.is_empty());
        operation["requestBody"] =
            json!({"required": required, "content": {"application/json": {"schema": reference(body)}}});
    }
    if route.does.is_open() {
        operation["security"] = json!([]);
    }
    operation
}

fn path_help(name: &str) -> &'static str {
    match name {
        "id" => "a plan's number",
        "node" => "a node: the beginning of its id, or its address",
        _ => "a setting's name",
    }
}

fn responses(route: &Route) -> Value {
    let content = match route.answer {
        "text" => json!({"text/plain": {"schema": {"type": "string"}}}),
        "html" => json!({"text/html": {"schema": {"type": "string"}}}),
        "object" => json!({"application/json": {"schema": {"type": "object"}}}),
        schema => json!({"application/json": {"schema": reference(schema)}}),
    };
    let mut responses = json!({"200": {"description": "done", "content": content}});
    let mut add = |status: &str, description: &str| {
        responses[status] =
            json!({"description": description, "content": {"application/json": {"schema": reference("Error")}}});
    };
    if !route.does.is_open() {
        add("401", "a password is asked for, and was not given");
    }
    if matches!(route.does, Does::Admin(_)) {
        add("400", "the request is written wrongly");
        add("404", "what it names is not there");
        add("409", "the store does not do that as it is");
        add("500", "something failed");
        add("503", "who would have to answer cannot be reached now");
    }
    if route.method != "GET" {
        add("413", "the body is too long");
        add("415", "the header content-type: application/json is missing");
    }
    if matches!(route.does, Does::Ready) {
        responses["503"] = json!({
            "description": "it does not take part, and why",
            "content": {"application/json": {"schema": reference(route.answer)}},
        });
    }
    responses
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn object(fields: &[Field], required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), typed(field.kind, field.help))).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// `text`, `count`, `number`, `flag`, `any`, the name of a schema; `[]` behind it for a list, `?` for one that may be null.
fn typed(kind: &str, help: &str) -> Value {
    let mut schema = if let Some(kind) = kind.strip_suffix('?') {
        match typed(kind, "") {
            of if of.get("$ref").is_some() => json!({"anyOf": [of, {"type": "null"}]}),
            mut of => {
                of["type"] = json!([of["type"], "null"]);
                of
            }
        }
    } else if let Some(kind) = kind.strip_suffix("[]") {
        json!({"type": "array", "items": typed(kind, "")})
    } else {
        match kind {
            "text" => json!({"type": "string"}),
            "count" => json!({"type": "integer", "minimum": 0}),
            "number" => json!({"type": "number"}),
            "flag" => json!({"type": "boolean"}),
            "texts" => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "range" => json!({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}),
            schema => reference(schema),
        }
    };
    if !help.is_empty() {
        schema["description"] = json!(help);
    }
    schema
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    /// Every `$ref` of a document.
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value.as_str().filter(|_| name == "$ref") {
                        Some(text) => drop(found.insert(text.to_owned())),
                        None => references(value, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_is_whole() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in &found {
            let path = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(path).is_some(), "{reference} leads nowhere");
        }
        for schema in SCHEMAS {
            let path = format!("#/components/schemas/{}", schema.name);
            assert!(found.contains(&path), "nothing has the schema {}", schema.name);
            assert!(schema.required.iter().all(|name| schema.fields.iter().any(|field| field.name == *name)));
        }
        let mut ids = BTreeSet::new();
        for route in ROUTES {
            let operation = &document["paths"][route.path][route.method.to_ascii_lowercase()];
            assert_eq!(operation["operationId"], route.id);
            assert!(ids.insert(route.id), "{} twice", route.id);
            assert!(operation["responses"]["200"]["content"].is_object());
        }
        let operations: usize =
            document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(operations, ROUTES.len());
    }

    #[test]
    fn the_file_in_docs_is_this_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        if std::env::var("BASALT_TRANSCRIPTS").is_ok_and(|mode| mode == "rewrite") {
            std::fs::write(path, text).unwrap();
            return;
        }
        assert!(std::fs::read_to_string(path).unwrap_or_default() == text, "BASALT_TRANSCRIPTS=rewrite writes it anew");
    }
}
