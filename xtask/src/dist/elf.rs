//! What a program says of itself in the form of Linux (ELF, 64 bits): its processor, and what it is loaded with.

use super::architecture::Architecture;

const SECTION_DYNAMIC: u32 = 6;
const SECTION_NEEDED_VERSIONS: u32 = 0x6fff_fffe;
const SEGMENT_INTERPRETER: u32 = 3;
const DYNAMIC_NEEDED: u64 = 1;

/// What was read of a program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    pub architecture: Architecture,
    /// What loads it; libraries have none.
    pub interpreter: Option<String>,
    /// Libraries that it is loaded with, by their names.
    pub needed: Vec<String>,
    /// The newest version of glibc that it asks for: N of 2.N.
    pub glibc_minor: Option<u32>,
}

impl Elf {
    /// Reads a program.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let file = File(bytes);
        if bytes.get(..6) != Some(&[0x7f, b'E', b'L', b'F', 2, 1]) {
            return Err("it is no program of Linux with 64 bits".to_owned());
        }
        let whole = "it is cut off";
        let machine = file.number(18, 2).ok_or(whole)? as u16;
        let architecture = Architecture::numbered(machine).ok_or_else(|| format!("it is for processor {machine}"))?;
        let sections = file.sections().ok_or(whole)?;
        let interpreter = file.interpreter().ok_or(whole)?;
        let needed = file.needed(&sections).ok_or(whole)?;
        let glibc_minor = file.glibc(&sections).ok_or(whole)?;
        Ok(Self { architecture, interpreter, needed, glibc_minor })
    }

    /// The newest version of glibc that it asks for.
    pub fn glibc(&self) -> Option<String> {
        self.glibc_minor.map(|minor| format!("2.{minor}"))
    }
}

/// One section, as the table of sections has it.
struct Section {
    kind: u32,
    offset: usize,
    size: usize,
    /// The section with its texts.
    link: usize,
    /// How many entries a table of versions has.
    info: usize,
}

struct File<'a>(&'a [u8]);

impl File<'_> {
    fn number(&self, at: usize, bytes: usize) -> Option<u64> {
        let field = self.0.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn place(&self, at: usize, bytes: usize) -> Option<usize> {
        self.number(at, bytes)?.try_into().ok()
    }

    fn text(&self, at: usize) -> Option<String> {
        let bytes = self.0.get(at..)?.split(|byte| *byte == 0).next()?;
        String::from_utf8(bytes.to_vec()).ok()
    }

    fn sections(&self) -> Option<Vec<Section>> {
        let (table, size, count) = (self.place(40, 8)?, self.place(58, 2)?, self.place(60, 2)?);
        let section = |n: usize| {
            let at = table.checked_add(n.checked_mul(size)?)?;
            Some(Section {
                kind: self.number(at + 4, 4)? as u32,
                offset: self.place(at + 24, 8)?,
                size: self.place(at + 32, 8)?,
                link: self.place(at + 40, 4)?,
                info: self.place(at + 44, 4)?,
            })
        };
        (0..count).map(section).collect()
    }

    /// The outer answer is nothing if the file is cut off.
    fn interpreter(&self) -> Option<Option<String>> {
        let (table, size, count) = (self.place(32, 8)?, self.place(54, 2)?, self.place(56, 2)?);
        for n in 0..count {
            let at = table.checked_add(n.checked_mul(size)?)?;
            if self.number(at, 4)? as u32 == SEGMENT_INTERPRETER {
                return self.text(self.place(at + 8, 8)?).map(Some);
            }
        }
        Some(None)
    }

    fn needed(&self, sections: &[Section]) -> Option<Vec<String>> {
        let mut needed = Vec::new();
        for dynamic in sections.iter().filter(|section| section.kind == SECTION_DYNAMIC) {
            let texts = sections.get(dynamic.link)?.offset;
            for at in (dynamic.offset..dynamic.offset.checked_add(dynamic.size)?).step_by(16) {
                if self.number(at, 8)? == DYNAMIC_NEEDED {
                    needed.push(self.text(texts.checked_add(self.place(at + 8, 8)?)?)?);
                }
            }
        }
        Some(needed)
    }

    /// The outer answer is nothing if the file is cut off.
    fn glibc(&self, sections: &[Section]) -> Option<Option<u32>> {
        let mut newest = None;
        for versions in sections.iter().filter(|section| section.kind == SECTION_NEEDED_VERSIONS) {
            let texts = sections.get(versions.link)?.offset;
            let mut library = versions.offset;
            for _ in 0..versions.info {
                let mut version = library.checked_add(self.place(library + 8, 4)?)?;
                for _ in 0..self.number(library + 2, 2)? {
                    let name = self.text(texts.checked_add(self.place(version + 8, 4)?)?)?;
                    // `GLIBC_2.2.5` is 2.2.
                    let minor = name.strip_prefix("GLIBC_2.").and_then(|rest| rest.split('.').next()?.parse().ok());
                    newest = newest.max(minor);
                    version = version.checked_add(self.place(version + 12, 4)?)?;
                }
                library = library.checked_add(self.place(library + 12, 4)?)?;
            }
        }
        Some(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::{Architecture, Elf};

    /// The test itself is a program.
    #[test]
    fn a_program_says_what_it_is_loaded_with() {
        let program = std::fs::read("/proc/self/exe").expect("this program");
        let elf = Elf::read(&program).expect("a program");
        assert_eq!(elf.architecture, Architecture::of_machine());
        assert!(elf.interpreter.as_ref().is_some_and(|path| path.contains("/ld-linux")), "{elf:?}");
        assert!(elf.needed.iter().any(|name| name == "libc.so.6"), "{elf:?}");
        assert!(elf.glibc_minor.is_some_and(|minor| minor >= 14), "{elf:?}");
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let program = std::fs::read("/proc/self/exe").expect("this program");
        for (bytes, why) in [
            (&b"#!/bin/sh\n"[..], "it is no program of Linux with 64 bits"),
            (&program[..100], "it is cut off"),
            (&program[..program.len() / 2], "it is cut off"),
        ] {
            assert_eq!(Elf::read(bytes), Err(why.to_owned()));
        }
        let mut other = program;
        other[18] = 243;
        assert_eq!(Elf::read(&other), Err("it is for processor 243".to_owned()));
    }
}
