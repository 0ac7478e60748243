//! Settings from the environment: `BASALT_` and the setting's name in capitals, `-` as `_`.

use super::given::{Given, Origin, closest, find};

const PREFIX: &str = "BASALT_";

/// What the environment says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The variables that are settings.
    pub given: Vec<Given>,
    /// What is said about those that seem to be meant as settings, and are none.
    pub warnings: Vec<String>,
}

impl Environment {
    /// The variable of a setting.
    pub fn variable(name: &str) -> String {
        format!("{PREFIX}{}", name.to_ascii_uppercase().replace('-', "_"))
    }

    /// Reads the variables. Those with the prefix that are no settings are no error: an orchestrator sets `BASALT_SERVICE_HOST` and the
    /// like for a service of that name, and `BASALT_PORT=tcp://…`; other programs are told a `BASALT_PASSWORD`.
    pub fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut variables: Vec<_> = variables.into_iter().collect();
        variables.sort();
        let mut environment = Self::default();
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix(PREFIX) else { continue };
            if value.starts_with("tcp://") || value.starts_with("udp://") {
                continue;
            }
            let name = name.to_ascii_lowercase().replace('_', "-");
            if find(&name).is_some() {
                environment.given.push(Given { name, value, origin: Origin::Environment(variable) });
            } else if let Some(other) = closest(&name) {
                environment.warnings.push(format!("{variable}: there is no such setting; is it `{other}`?"));
            }
        }
        environment
    }
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
            ("BASALT_PASSWORD", "p"),
            ("BASALT_REQUIRE", "mount"),
            ("BASALT_TIMEOUTT", "7"),
            ("MEMORY", "2gb"),
        ];
        let found = Environment::of(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let given: Vec<_> = found.given.iter().map(|one| (one.name.as_str(), one.value.as_str())).collect();
        assert_eq!(given, [("http-listen", "127.0.0.1:8000"), ("memory", "1gb")]);
        assert_eq!(found.warnings, ["BASALT_TIMEOUTT: there is no such setting; is it `timeout`?"]);
    }
}
