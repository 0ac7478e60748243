//! `cargo xtask dist`: what people install. The program without symbols and these beside it, a package for Debian and one for RPM, an
//! image for containers, and the list of what it is made of. The same commit and program give the same bytes.

mod architecture;
mod build;
mod deb;
mod digest;
mod elf;
mod image;
mod man;
mod release;
mod rpm;
mod tar;
mod texts;
mod tree;
mod trial;

use crate::supply::{Graph, sbom};
use architecture::Architecture;
pub use digest::sha256;
use release::Release;
pub use release::tool;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tree::{Node, Tree};

/// A program that is larger is not packed, unless it was given.
const PROGRAM_BYTES_MAX: usize = 30_000_000;

/// Where what is made goes. Not `target/dist`: there cargo keeps what builds the program of that profile, and would build all of it anew.
const OUT: &str = "target/packages";

/// What the options ask for.
struct Options {
    /// The program to pack; none: it is built.
    program: Option<PathBuf>,
    /// The processors to build it for.
    targets: Vec<Architecture>,
    version: String,
    out: PathBuf,
    compression: u32,
    /// Whether what was made is tried.
    is_tried: bool,
}

/// Makes all packages.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = options(root, arguments)?;
    // What was there before may be of another version.
    if options.out.exists() {
        std::fs::remove_dir_all(&options.out).map_err(|error| format!("{}: {error}", options.out.display()))?;
    }
    let mut layouts = Vec::new();
    match &options.program {
        Some(program) => layouts.push(pack(root, program, &options, false)?),
        None => {
            for target in &options.targets {
                layouts.push(pack(root, &build::built(root, *target)?, &options, true)?);
            }
        }
    }
    if layouts.len() > 1 {
        let (version, together) = (&options.version, image::together(&layouts)?);
        image::check(&together, &options.targets.iter().map(|target| target.debian()).collect::<Vec<_>>())?;
        let mut made = Tree::default();
        made.file(&format!("basalt-{version}.oci.tar"), 0o644, tar::tar(&together, "", 0)?);
        save(&options.out, &made)?;
    }
    if options.is_tried { trial::run(root, &options.out) } else { Ok(()) }
}

/// Packs a program; answers the layout of its image. One that was built here has to keep what packages promise.
fn pack(root: &Path, program: &Path, options: &Options, is_built: bool) -> Result<Tree, String> {
    let work = options.out.join("work");
    std::fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let release = Release::of(root, program, &options.version, &work, options.compression)?;
    std::fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    if is_built {
        promised(&release)?;
    }
    let (made, layout) = made(root, &release, program)?;
    save(&options.out.join(release.architecture().debian()), &made)?;
    Ok(layout)
}

/// What packages promise of a program: it is small, and runs on old systems.
fn promised(release: &Release) -> Result<(), String> {
    if release.program.len() > PROGRAM_BYTES_MAX {
        return Err(format!("the program has {} bytes: more than {PROGRAM_BYTES_MAX}", release.program.len()));
    }
    if release.elf.glibc_minor.is_some_and(|minor| minor > build::GLIBC_MINOR_MAX) {
        return Err(format!("the program asks for glibc {}: newer than 2.{}", release.glibc, build::GLIBC_MINOR_MAX));
    }
    const OF_GLIBC: [&str; 7] = ["libc.", "libdl.", "libm.", "libpthread.", "librt.", "libutil.", "ld-linux"];
    let is_other = |name: &&String| !OF_GLIBC.iter().any(|start| name.starts_with(start));
    match release.elf.needed.iter().find(is_other) {
        Some(other) => Err(format!("the program is loaded with {other}, which is not of glibc")),
        None => Ok(()),
    }
}

/// All that is made for one processor, by its path in the folder of the output; and the layout of the image.
fn made(root: &Path, release: &Release, program: &Path) -> Result<(Tree, Tree), String> {
    let (version, architecture) = (&release.version, release.architecture());
    let graph = Graph::read(root, Some(&architecture.target()))?;
    let list = sbom(&graph, version, &sha256(&release.program), release.at_s);
    let list = serde_json::to_vec_pretty(&list).map_err(|error| error.to_string())?;
    let files = release.files(root, program, &list)?;
    let layout = image::image(release, &list)?;
    image::check(&layout, &[architecture.debian()])?;
    let mut made = Tree::default();
    made.file("basalt", 0o755, release.program.clone());
    made.file("basalt.debug", 0o644, release.symbols.clone());
    made.file("basalt.cdx.json", 0o644, list);
    let architecture = architecture.debian();
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
    Ok((made, layout))
}

/// Writes files, and tells those that are not in folders.
fn save(folder: &Path, made: &Tree) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    write(folder, made)?;
    for (path, item) in made.iter().filter(|(path, _)| !path.contains('/')) {
        if let Node::File(bytes) = &item.node {
            println!("{:>12} {}", bytes.len(), folder.join(path).display());
        }
    }
    Ok(())
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

fn options(root: &Path, arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        program: None,
        targets: vec![Architecture::of_machine()],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        out: root.join(OUT),
        compression: 9,
        is_tried: false,
    };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        if name == "--test" {
            options.is_tried = true;
            continue;
        }
        let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--program" => options.program = Some(PathBuf::from(value)),
            "--target" if value == "all" => options.targets = Architecture::ALL.to_vec(),
            "--target" => {
                let target = Architecture::named(value);
                options.targets = vec![target.ok_or_else(|| format!("{name} {value}: amd64, arm64 or all"))?];
            }
            "--version" => options.version.clone_from(value),
            "--out" => options.out = PathBuf::from(value),
            "--compression" => {
                let level = value.parse().ok().filter(|level| (1..=9).contains(level));
                options.compression = level.ok_or_else(|| format!("{name} {value}: from 1 to 9"))?;
            }
            _ => return Err(format!("unknown option {name}")),
        }
    }
    if options.is_tried && options.version != env!("CARGO_PKG_VERSION") {
        return Err("--test knows the version of the sources alone".to_owned());
    }
    Ok(options)
}
