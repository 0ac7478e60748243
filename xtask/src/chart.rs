//! `cargo xtask chart`: helm lints the chart and renders it with each set of values in `deploy/helm/rendered`, and what comes out is read as
//! the API server of Kubernetes reads it, and checked by kubeconform against the schemas of that release of Kubernetes.
//!
//! The renderings are kept beside the values: tests start nodes by the commands in them. Each begins with the sum of what it was made from, so
//! a chart that has changed since is found without helm.

mod schemas;

use crate::dist::{sha256, tool};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Sets of values.
const SETS: [&str; 3] = ["defaults", "tls", "all"];
/// What renders: another one may put lines in another way.
const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.18.4";
/// The release of Kubernetes that it renders for.
const KUBERNETES: &str = "1.33.0";
/// What checks manifests against schemas.
const KUBECONFORM: &str = "github.com/yannh/kubeconform/cmd/kubeconform@v0.6.7";
/// A kind that is not of Kubernetes itself, so its API does not have it. Its fields are checked where the manifests are read.
const FOREIGN: &str = "ServiceMonitor";
/// Values that the chart refuses, and what it says of each.
const REFUSED: [(&str, &str); 6] = [
    ("nodes=0", "nodes: Must be greater than or equal to 1"),
    ("replicationFactor=5", "replicationFactor is at most nodes"),
    ("replicationFactor=2", "replicationFactor must be one of"),
    ("tls.enabled=true", "tls.secretName: String length must be greater"),
    ("persistence.sise=1Gi", "Additional property sise is not allowed"),
    ("service.type=Ingress", "service.type must be one of"),
];
/// Kinds that the whole chart has.
const KINDS: [&str; 6] = ["Job", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceMonitor", "StatefulSet"];

/// Renders all sets; with `--check` they must be as they are kept.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let is_check = match arguments {
        [] => false,
        [option] if option == "--check" => true,
        _ => return Err("chart takes `--check`, and nothing else".to_owned()),
    };
    let tools = Tools::get(root)?;
    let chart = root.join("deploy/helm/basalt").display().to_string();
    for set in SETS {
        let (values, kept) = (file(root, set, "values.yaml"), file(root, set, "yaml"));
        let values = values.display().to_string();
        let lint = tool(&tools.helm, &["lint", "--strict", "--quiet", &chart, "--values", &values])?;
        let rendered = tools.rendered(&chart, &["--values", &values])?;
        let kinds = tools.read(&rendered)?;
        tools.conform(&rendered)?;
        if let Some(kind) = KINDS.into_iter().find(|kind| set == "all" && !kinds.contains(kind)) {
            return Err(format!("{set}: no {kind} in\n{kinds}"));
        }
        let rendered = format!("{}{}", head(root, set)?, without_random(&rendered));
        if is_check && fs::read_to_string(&kept).unwrap_or_default() != rendered {
            return Err(format!("{} is not what helm renders: run `cargo xtask chart`", kept.display()));
        }
        fs::write(&kept, rendered).map_err(|error| format!("{}: {error}", kept.display()))?;
        println!("{set}: {} {}", kinds.split_whitespace().collect::<Vec<_>>().join(" "), lint.trim());
    }
    for (value, why) in REFUSED {
        match tools.rendered(&chart, &["--set", value]) {
            Err(text) if text.contains(why) => {}
            other => return Err(format!("{value} is to be refused because {why}, and came to {other:?}")),
        }
    }
    Ok(())
}

fn file(root: &Path, set: &str, extension: &str) -> PathBuf {
    root.join("deploy/helm/rendered").join(format!("{set}.{extension}"))
}

/// The first line of a rendering: what it was made from.
fn head(root: &Path, set: &str) -> Result<String, String> {
    let mut files = BTreeMap::new();
    read_folder(&root.join("deploy/helm/basalt"), &mut files)?;
    let values = file(root, set, "values.yaml");
    files.insert(values.clone(), read(&values)?);
    let whole = files.iter().fold(String::new(), |whole, (path, bytes)| {
        let name = path.strip_prefix(root).unwrap_or(path).display();
        format!("{whole}{name} {}\n", sha256(bytes))
    });
    Ok(format!("# Made by `cargo xtask chart` from what has the sum {}\n", sha256(whole.as_bytes())))
}

fn read_folder(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        match path.is_dir() {
            true => read_folder(&path, files)?,
            false => drop(files.insert(path.clone(), read(&path)?)),
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A secret is another one each time.
fn without_random(rendered: &str) -> String {
    let line = |line: &str| match line.split_once(": ") {
        Some((name @ ("  password" | "  peer-secret"), _)) => format!("{name}: UkFORE9N\n"),
        _ => format!("{line}\n"),
    };
    rendered.lines().map(line).collect()
}

/// Programs in Go, which are built once.
struct Tools {
    helm: String,
    check: String,
    conform: String,
    /// A folder of schemas.
    schemas: PathBuf,
}

impl Tools {
    fn get(root: &Path) -> Result<Self, String> {
        let folder = root.join("target/helm");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (helm, check) = (folder.join("helm"), folder.join("check"));
        if !helm.exists() {
            go(Command::new("go").args(["install", HELM]).env("GOBIN", &folder))?;
        }
        go(Command::new("go").args(["build", "-o"]).arg(&check).arg(".").current_dir(root.join("deploy/helm/check")))?;
        let conform = folder.join("kubeconform");
        if !conform.exists() {
            go(Command::new("go").args(["install", KUBECONFORM]).env("GOBIN", &folder))?;
        }
        let text = |path: &Path| path.display().to_string();
        let schemas = schemas_of(&folder)?;
        Ok(Self { helm: text(&helm), check: text(&check), conform: text(&conform), schemas })
    }

    /// What helm makes of a chart with those options.
    fn rendered(&self, chart: &str, options: &[&str]) -> Result<String, String> {
        let words = ["template", "kv", chart, "--namespace", "ns", "--kube-version", KUBERNETES];
        tool(&self.helm, &[&words, options].concat())
    }

    /// Has manifests read; answers their kinds.
    fn read(&self, manifests: &str) -> Result<String, String> {
        answered(&mut Command::new(&self.check), manifests)
    }

    /// Has manifests checked against the schemas of Kubernetes.
    fn conform(&self, manifests: &str) -> Result<(), String> {
        let location = format!("{}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json", self.schemas.display());
        let mut conform = Command::new(&self.conform);
        conform.args(["-strict", "-summary", "-skip", FOREIGN, "-schema-location", &location, "-"]);
        answered(&mut conform, manifests).map(drop)
    }
}

/// What a program prints that is given a text.
fn answered(command: &mut Command, text: &str) -> Result<String, String> {
    let name = format!("{command:?}");
    let told = |error: std::io::Error| format!("{name}: {error}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().map_err(told)?;
    let written = running.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    let output = running.wait_with_output().map_err(told)?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() && written.is_some_and(|written| written.is_ok()) {
        true => Ok(said(&output.stdout)),
        false => Err(format!("{}{}", said(&output.stdout), said(&output.stderr))),
    }
}

/// The schemas of Kubernetes, in a folder.
fn schemas_of(folder: &Path) -> Result<PathBuf, String> {
    let schemas = folder.join(format!("schemas-{KUBERNETES}"));
    if schemas.exists() {
        return Ok(schemas);
    }
    let module = format!("k8s.io/kubernetes@v{KUBERNETES}");
    let fetched = tool("go", &["mod", "download", "-json", &module])?;
    let fetched: serde_json::Value = serde_json::from_str(&fetched).map_err(|error| format!("{module}: {error}"))?;
    let api = Path::new(fetched["Dir"].as_str().unwrap_or_default()).join("api/openapi-spec/swagger.json");
    let api = serde_json::from_slice(&read(&api)?).map_err(|error| format!("{}: {error}", api.display()))?;
    let made = folder.join("schemas-in-the-making");
    fs::create_dir_all(&made).map_err(|error| format!("{}: {error}", made.display()))?;
    schemas::write(&api, &made)?;
    fs::rename(&made, &schemas).map_err(|error| format!("{}: {error}", schemas.display()))?;
    Ok(schemas)
}

fn go(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("go: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {text}")) }
}

#[cfg(test)]
mod tests {
    use super::{SETS, file, head, without_random};
    use std::path::Path;

    #[test]
    fn renderings_are_of_the_chart_as_it_is() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        for set in SETS {
            let rendered = std::fs::read_to_string(file(root, set, "yaml")).unwrap_or_default();
            let made_from = rendered.lines().next().unwrap_or_default();
            let now = head(root, set).unwrap_or_else(|error| error);
            assert_eq!(made_from, now.trim_end(), "{set}: run `cargo xtask chart`, and look at what changes");
        }
    }

    #[test]
    fn secrets_are_not_kept() {
        let rendered = "data:\n  password: b25l\n  peer-secret: dHdv\n  other: dHdv\n";
        assert_eq!(without_random(rendered), "data:\n  password: UkFORE9N\n  peer-secret: UkFORE9N\n  other: dHdv\n");
    }
}
