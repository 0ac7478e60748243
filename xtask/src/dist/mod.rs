//! `cargo xtask dist`: what people install. The program without symbols and these beside it, a package for Debian and one for RPM, an
//! image for containers, and the list of what it is made of. The same commit and program give the same bytes.

mod deb;
mod digest;
mod image;
mod man;
mod release;
mod rpm;
mod tar;
mod texts;
mod tree;

use crate::process;
use crate::supply::{Graph, sbom};
pub use digest::sha256;
use release::Release;
pub use release::tool;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tree::{Node, Tree};

/// The profile of what is packed: as a release, with lines for debuggers.
const PROFILE: &str = "profiling";
/// A program that is larger is not packed, unless it was given.
const PROGRAM_BYTES_MAX: usize = 30_000_000;
/// Functions that are alike share their code, which makes the program smaller by 3 %. It is the linker's that Rust brings for this processor.
const LINKING: &[&str] = if cfg!(target_arch = "x86_64") { &["--", "-C", "link-arg=-Wl,--icf=all"] } else { &[] };

/// What the options ask for.
struct Options {
    /// The program to pack; none: it is built.
    program: Option<PathBuf>,
    version: String,
    out: PathBuf,
    compression: u32,
}

/// Makes all packages.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = options(root, arguments)?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => built(root)?,
    };
    // What was there before may be of another version.
    if options.out.exists() {
        std::fs::remove_dir_all(&options.out).map_err(|error| format!("{}: {error}", options.out.display()))?;
    }
    std::fs::create_dir_all(&options.out).map_err(|error| format!("{}: {error}", options.out.display()))?;
    let release = Release::of(root, &program, &options.version, &options.out, options.compression)?;
    if options.program.is_none() && release.program.len() > PROGRAM_BYTES_MAX {
        return Err(format!("the program has {} bytes: more than {PROGRAM_BYTES_MAX}", release.program.len()));
    }
    let made = made(root, &release, &program)?;
    write(&options.out, &made)?;
    for (path, item) in made.iter().filter(|(path, _)| !path.contains('/')) {
        if let Node::File(bytes) = &item.node {
            println!("{:>12} {}", bytes.len(), options.out.join(path).display());
        }
    }
    Ok(())
}

/// All that is made, by its path in the folder of the output.
fn made(root: &Path, release: &Release, program: &Path) -> Result<Tree, String> {
    let (version, architecture) = (&release.version, release.debian_architecture());
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let list = sbom(&Graph::read(root, Some(&platform))?, version, &sha256(&release.program), release.at_s);
    let list = serde_json::to_vec_pretty(&list).map_err(|error| error.to_string())?;
    let files = release.files(root, program, &list)?;
    let layout = image::image(release, program, &list)?;
    let mut made = Tree::default();
    made.file("basalt", 0o755, release.program.clone());
    made.file("basalt.debug", 0o644, release.symbols.clone());
    made.file("basalt.cdx.json", 0o644, list);
    made.file(&format!("basalt_{version}_{architecture}.deb"), 0o644, deb::deb(release, &files)?);
    made.file(&rpm::file_name(release), 0o644, rpm::rpm(release, &files)?);
    made.file(&format!("basalt-{version}-{architecture}.oci.tar"), 0o644, tar::tar(&layout, "", release.at_s)?);
    for (path, item) in layout.iter() {
        if let Node::File(bytes) = &item.node {
            made.file(&format!("oci/{path}"), 0o644, bytes.clone());
        }
    }
    let sums = sums(&made);
    made.file("SHA256SUMS", 0o644, sums);
    Ok(made)
}

/// As `sha256sum --check` reads them.
fn sums(made: &Tree) -> String {
    made.iter().fold(String::new(), |mut text, (path, item)| {
        if let Node::File(bytes) = &item.node {
            let _ = writeln!(text, "{}  {path}", sha256(bytes));
        }
        text
    })
}

fn write(folder: &Path, made: &Tree) -> Result<(), String> {
    for (path, item) in made.iter() {
        let path = folder.join(path);
        let written = match &item.node {
            Node::Folder => std::fs::create_dir_all(&path),
            Node::File(bytes) => std::fs::write(&path, bytes),
            Node::Link(_) => Ok(()),
        };
        let mode = std::os::unix::fs::PermissionsExt::from_mode(item.mode);
        written
            .and_then(|()| std::fs::set_permissions(&path, mode))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn built(root: &Path) -> Result<PathBuf, String> {
    let arguments = ["rustc", "--profile", PROFILE, "--package", "basalt", "--bin", "basalt", "--locked"];
    process::run(root, &mut process::cargo(&[&arguments[..], LINKING].concat())).map_err(|(_, why)| why)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join(PROFILE).join("basalt"))
}

fn options(root: &Path, arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        program: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        out: root.join("target/dist"),
        compression: 9,
    };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--program" => options.program = Some(PathBuf::from(value)),
            "--version" => options.version.clone_from(value),
            "--out" => options.out = PathBuf::from(value),
            "--compression" => {
                let level = value.parse().ok().filter(|level| (1..=9).contains(level));
                options.compression = level.ok_or_else(|| format!("{name} {value}: from 1 to 9"))?;
            }
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}
