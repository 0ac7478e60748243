//! An application: what is installed for it, what its program does, and where that connects.

use super::situation::Situation;
use super::toolchain::Toolchain;
use std::time::Duration;

/// The listener that an application connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// A plain Redis with databases: for applications that do not know clusters.
    Databases,
    /// A Redis Cluster.
    Cluster,
}

/// An application as its registry has it, and the program here that makes it do its job.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    /// Its name: that of the program in `xtask/apps/LANGUAGE`, without the extension.
    pub name: &'static str,
    /// What installs and runs it.
    pub toolchain: Toolchain,
    /// What is installed, with versions, as the package manager writes it. The first is the application.
    pub packages: &'static [&'static str],
    /// Where it connects.
    pub listener: Listener,
    /// What is tried: a suite of tests is not for a store that loses a node.
    pub situations: &'static [Situation],
    /// Longest time for one trial.
    pub bound: Duration,
    /// Whether it is a package's own tests, which take long.
    pub is_suite: bool,
    /// Whether it is one of those of which the gate kills the leader, one a turn: quick to recover, and a program of scripts,
    /// locks or messages.
    pub is_killed_in_gate: bool,
    /// What the program has it do, for the page.
    pub does: &'static str,
}

impl Application {
    /// The same application, whose leader the gate kills too.
    pub const fn killed_in_gate(self) -> Self {
        Self { is_killed_in_gate: true, ..self }
    }

    /// Whether the gate runs it: its job, and not the package's own tests; and nothing that only Debian's packages have, which
    /// need root.
    pub fn is_in_gate(&self) -> bool {
        !matches!(self.toolchain, Toolchain::Ruby | Toolchain::Php) && !self.is_suite
    }

    /// The packages that are asked for by their versions, as the page shows them.
    pub fn version(&self) -> String {
        self.packages.iter().filter_map(|package| shown(package)).collect::<Vec<_>>().join(", ")
    }
}

/// `name version` of a package, as pip (`name==version`), npm and Go (`name@version`), Maven (`group:name:version`) and the
/// catalogue for Debian (`name=version`) write it.
fn shown(package: &str) -> Option<String> {
    let marks = ["==", "@", ":", "="];
    let (name, version) = marks.into_iter().find_map(|mark| package.rsplit_once(mark))?;
    let name = name.rsplit_once(':').map_or(name, |(_, artifact)| artifact);
    version.starts_with(|first: char| first.is_ascii_digit() || first == 'v').then(|| format!("{name} {version}"))
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_package_is_shown_with_its_version_or_not_at_all() {
        for (package, expected) in [
            ("celery[redis]==5.7.0", Some("celery[redis] 5.7.0")),
            ("@socket.io/redis-adapter@8.3.0", Some("@socket.io/redis-adapter 8.3.0")),
            ("github.com/hibiken/asynq@v0.26.0", Some("github.com/hibiken/asynq v0.26.0")),
            ("io.lettuce:lettuce-core:7.7.0.RELEASE", Some("lettuce-core 7.7.0.RELEASE")),
            ("org.springframework.boot:spring-boot-starter-web", None),
            ("ruby-sidekiq=6.4.1", Some("ruby-sidekiq 6.4.1")),
            ("ruby", None),
        ] {
            assert_eq!(shown(package).as_deref(), expected, "{package}");
        }
    }
}
