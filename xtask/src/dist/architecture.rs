//! The processors that packages are made for.

/// A kind of processor, and what each kind of package calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// That of this machine.
    pub fn of_machine() -> Self {
        if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 }
    }

    /// As people say it: in the words of Debian or of Rust.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|architecture| [architecture.debian(), architecture.rpm()].contains(&name))
    }

    /// By its number in programs.
    pub fn numbered(machine: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|architecture| architecture.machine() == machine)
    }

    fn machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }

    /// In the words of Debian, and of images.
    pub fn debian(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// In the words of RPM, Rust and the kernel.
    pub fn rpm(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// RPM's number, in what a package begins with.
    pub fn rpm_number(self) -> u16 {
        match self {
            Self::Amd64 => 1,
            Self::Arm64 => 19,
        }
    }

    /// What Rust compiles for.
    pub fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.rpm())
    }

    /// What else an image's manifest says of the processor.
    pub fn variant(self) -> Option<&'static str> {
        (self == Self::Arm64).then_some("v8")
    }

    /// Where the libraries of a machine of this kind are on this one: the roots below which a path may be.
    pub fn library_folders(self) -> Vec<String> {
        let name = format!("{}-linux-gnu", self.rpm());
        let cross = format!("/usr/{name}/lib");
        let own = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"].into_iter();
        let own: Vec<String> = own.flat_map(|folder| [format!("{folder}/{name}"), folder.to_owned()]).collect();
        // Folders without the processor's name have libraries of this machine's own.
        if self == Self::of_machine() { own } else { vec![cross, format!("/usr/lib/{name}"), format!("/lib/{name}")] }
    }

    /// What runs its programs here, with its first words; nothing if this machine does.
    pub fn emulator(self) -> Vec<String> {
        if self == Self::of_machine() {
            return Vec::new();
        }
        vec![format!("qemu-{}-static", self.rpm()), "-L".to_owned(), format!("/usr/{}-linux-gnu", self.rpm())]
    }
}
