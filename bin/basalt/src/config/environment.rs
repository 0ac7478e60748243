//! Settings from the environment: `BASALT_` and the setting's name in capitals, `-` as `_`.

use super::given::{Given, Origin};
use node::config::SETTINGS;

const PREFIX: &str = "BASALT_";

/// The variables that are settings. Others with that prefix are no error: an orchestrator sets `BASALT_SERVICE_HOST` and
/// the like for a service of that name, and `BASALT_PORT=tcp://…`.
pub fn settings(variables: impl IntoIterator<Item = (String, String)>) -> Vec<Given> {
    let mut found: Vec<Given> = variables.into_iter().filter_map(|(name, value)| setting(name, value)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn setting(variable: String, value: String) -> Option<Given> {
    let name = variable.strip_prefix(PREFIX)?.to_ascii_lowercase().replace('_', "-");
    let is_of_orchestrator = value.starts_with("tcp://") || value.starts_with("udp://");
    let is_setting = SETTINGS.iter().any(|setting| setting.is_named(name.as_bytes()));
    (is_setting && !is_of_orchestrator).then_some(Given { name, value, origin: Origin::Environment(variable) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_settings_by_name() {
        let variables = [
            ("BASALT_MEMORY", "1gb"),
            ("BASALT_HTTP_LISTEN", "127.0.0.1:8000"),
            ("BASALT_PORT", "tcp://10.0.0.1:7000"),
            ("BASALT_SERVICE_HOST", "10.0.0.1"),
            ("MEMORY", "2gb"),
        ];
        let found = settings(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let found: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect();
        assert_eq!(found, [("http-listen", "127.0.0.1:8000"), ("memory", "1gb")]);
    }
}
