//! Compiles Lua, and redirects some calls between its parts to this crate: in the compiled objects they call functions with other
//! names of the same length. Those are in Rust, or in C where they are called in each instruction (`c/`).
#![allow(unsafe_code, reason = "the environment is how the compiler of Lua takes options")]

use std::fs;
use std::path::Path;

/// Calls of a function that go by way of this crate.
struct Renamed {
    /// The object whose calls they are; none: all but the one that has the function. Where it is that one itself, the function gets the other
    /// name, and this crate has one in its place, for all of the program.
    caller: Option<&'static str>,
    /// The object that has it.
    owner: &'static str,
    /// The function's name and the one in its place. Where a compiler may call one function or another, there are several: at least one is
    /// called.
    names: &'static [[&'static str; 2]],
}

const RENAMED: &[Renamed] = &[
    // Before the next: where numbers become texts, and texts are joined.
    Renamed { caller: Some("lvm.o"), owner: "lstring.o", names: &[["luaS_newlstr", "bslt_newtext"]] },
    Renamed { caller: None, owner: "lstring.o", names: &[["luaS_newlstr", "bslt_newlstr"]] },
    Renamed { caller: Some("lapi.o"), owner: "ltable.o", names: &[["luaH_next", "bslt_next"]] },
    Renamed { caller: Some("lvm.o"), owner: "lobject.o", names: &[["luaO_str2d", "bslt_str2d"]] },
    Renamed { caller: Some("lvm.o"), owner: "ldo.o", names: &[["luaD_precall", "bslt_precall"]] },
    Renamed { caller: Some("lvm.o"), owner: "libc", names: &[["strcoll", "bstcoll"]] },
    // Not to be counted: whose line an error names.
    Renamed { caller: Some("lauxlib.o"), owner: "ldebug.o", names: &[["lua_getstack", "bslt_getcall"]] },
    Renamed { caller: Some("lbaselib.o"), owner: "ldebug.o", names: &[["lua_getstack", "bslt_atlevel"]] },
    Renamed { caller: Some("lvm.o"), owner: "ltm.o", names: &[["luaT_gettm", "bslt_gettm"]] },
    Renamed { caller: Some("ltablib.o"), owner: "lauxlib.o", names: &[["luaL_checkinteger", "bslt_checkinteger"]] },
    // Not to be counted: what C libraries compute differs in the last bit.
    Renamed { caller: Some("lvm.o"), owner: "libc", names: &[["pow", "bpw"]] },
    Renamed { caller: Some("lcode.o"), owner: "libc", names: &[["pow", "bpw"]] },
    Renamed { caller: Some("lstring.o"), owner: "libc", names: &[["memcmp", "bstcmp"], ["bcmp", "bscm"]] },
    // Tables, and what objects are numbered by.
    Renamed { caller: None, owner: "ltable.o", names: &[["luaH_get", "bslH_get"]] },
    Renamed { caller: None, owner: "ltable.o", names: &[["luaH_getnum", "bslH_getnum"]] },
    Renamed { caller: None, owner: "ltable.o", names: &[["luaH_getstr", "bslH_getstr"]] },
    Renamed { caller: None, owner: "ltable.o", names: &[["luaH_set", "bslH_set"]] },
    Renamed { caller: None, owner: "ltable.o", names: &[["luaH_setnum", "bslH_setnum"]] },
    Renamed { caller: None, owner: "ltable.o", names: &[["luaH_setstr", "bslH_setstr"]] },
    Renamed { caller: None, owner: "ltable.o", names: &[["luaH_getn", "bslH_getn"]] },
    Renamed { caller: None, owner: "ltable.o", names: &[["luaH_new", "bslH_new"]] },
    Renamed { caller: None, owner: "ltable.o", names: &[["luaH_resizearray", "bslH_resizearray"]] },
    Renamed { caller: None, owner: "ltable.o", names: &[["luaH_free", "bslH_free"]] },
    Renamed { caller: None, owner: "lgc.o", names: &[["luaC_link", "bslC_link"]] },
    Renamed { caller: Some("lapi.o"), owner: "lstring.o", names: &[["luaS_newudata", "bslS_newudata"]] },
    Renamed { caller: Some("lgc.o"), owner: "ltm.o", names: &[["luaT_gettm", "bslC_gettm"]] },
    Renamed { caller: Some("lstate.o"), owner: "state.o", names: &[["lua_newstate", "bsl_newstate"]] },
    Renamed { caller: Some("lbaselib.o"), owner: "ldo.o", names: &[["lua_resume", "bsl_resume"]] },
    // What instructions do that are as long as hundreds, and what C calls.
    Renamed { caller: Some("lvm.o"), owner: "lfunc.o", names: &[["luaF_findupval", "bslF_findupval"]] },
    Renamed { caller: Some("lparser.o"), owner: "lcode.o", names: &[["luaK_nil", "bslK_nil"]] },
    Renamed { caller: Some("lparser.o"), owner: "lcode.o", names: &[["luaK_setreturns", "bslK_setreturns"]] },
    Renamed { caller: Some("lparser.o"), owner: "lcode.o", names: &[["luaK_exp2nextreg", "bslK_exp2nextreg"]] },
    Renamed { caller: Some("lparser.o"), owner: "lcode.o", names: &[["luaK_exp2anyreg", "bslK_exp2anyreg"]] },
    Renamed { caller: Some("lparser.o"), owner: "lcode.o", names: &[["luaK_storevar", "bslK_storevar"]] },
    Renamed { caller: Some("lparser.o"), owner: "lcode.o", names: &[["luaK_infix", "bslK_infix"]] },
    Renamed { caller: Some("lparser.o"), owner: "lcode.o", names: &[["luaK_concat", "bslK_concat"]] },
    Renamed { caller: Some("lparser.o"), owner: "llex.o", names: &[["luaX_next", "bslX_next"]] },
    Renamed { caller: Some("lvm.o"), owner: "ldo.o", names: &[["luaD_call", "bslD_call"]] },
    Renamed { caller: Some("lvm.o"), owner: "ldo.o", names: &[["luaD_poscall", "bslD_poscall"]] },
    Renamed { caller: Some("lvm.o"), owner: "ltm.o", names: &[["luaT_gettmbyobj", "bslT_gettmbyobj"]] },
    Renamed { caller: Some("ldebug.o"), owner: "state.o", names: &[["lua_getstack", "bsl_getstack"]] },
    // How errors name what they are about.
    Renamed { caller: None, owner: "ldebug.o", names: &[["luaG_typeerror", "bslG_typeerror"]] },
    Renamed { caller: None, owner: "ldebug.o", names: &[["luaG_concaterror", "bslG_concaterror"]] },
    Renamed { caller: None, owner: "ldebug.o", names: &[["luaG_aritherror", "bslG_aritherror"]] },
    Renamed { caller: Some("ldebug.o"), owner: "errors.o", names: &[["lua_getinfo", "bsl_getinfo"]] },
    Renamed { caller: Some("ltablib.o"), owner: "lapi.o", names: &[["lua_call", "bsl_call"]] },
    Renamed { caller: Some("ltablib.o"), owner: "lapi.o", names: &[["lua_lessthan", "bsl_lessthan"]] },
    Renamed { caller: Some("ltablib.o"), owner: "lapi.o", names: &[["lua_rawgeti", "bsl_rawgeti"]] },
    Renamed { caller: Some("lbaselib.o"), owner: "lapi.o", names: &[["lua_rawgeti", "bsl_rawgeti"]] },
    Renamed { caller: Some("ltablib.o"), owner: "lapi.o", names: &[["lua_next", "bsl_next"]] },
    // Not to be counted: what a script may not do to a state.
    Renamed { caller: Some("lbaselib.o"), owner: "lapi.o", names: &[["lua_checkstack", "bsl_checkstack"]] },
    Renamed { caller: Some("lbaselib.o"), owner: "lapi.o", names: &[["lua_setfenv", "bsl_setfenv"]] },
    // Nor these: numbers that processors make integers in their own ways.
    Renamed { caller: Some("lapi.o"), owner: "library.o", names: &[["lua_tonumber", "bsl_tonumber"]] },
    Renamed { caller: Some("lapi.o"), owner: "library.o", names: &[["lua_tointeger", "bsl_tointeger"]] },
    Renamed { caller: Some("lstrlib.o"), owner: "lauxlib.o", names: &[["luaL_checknumber", "bslL_checknumber"]] },
    Renamed {
        caller: Some("lstrlib.o"),
        owner: "libc",
        names: &[["sprintf", "bprintf"], ["__sprintf_chk", "__bprintf_chk"]],
    },
];

/// The sources in C of this crate.
const SOURCES: [&str; 7] = ["parts.c", "table.c", "text.c", "state.c", "library.c", "code.c", "errors.c"];

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_BYTES: usize = 60;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=c");
    choose_flags();
    // Independent of the profile of this crate, because the price of an instruction depends on it.
    let built = lua_src::Build::new().opt_level("2").build(lua_src::Lua51);
    let library = built.lib_dir().join("liblua5.1.a");
    let mut archive = fs::read(&library).unwrap_or_else(|e| panic!("{}: {e}", library.display()));
    rename(&mut archive);
    write(&built.lib_dir().join("libluacounted.a"), &archive);
    println!("cargo:rustc-link-search=native={}", built.lib_dir().display());
    // Whole: what needs it may come before it or behind it.
    println!("cargo:rustc-link-lib=static:+whole-archive=luacounted");
    compile_own(built.include_dir());
    println!("cargo:rustc-link-search=native={}", std::env::var("OUT_DIR").expect("cargo says where"));
    println!("cargo:rustc-link-lib=static:+whole-archive=luaparts");
}

/// Compiles the sources of this crate, as Lua is.
fn compile_own(headers: &Path) {
    cc::Build::new()
        .files(SOURCES.map(|name| Path::new("c").join(name)))
        .include(headers)
        .opt_level(2)
        .flag_if_supported("-fno-common")
        .cargo_metadata(false)
        .compile("luaparts");
}

/// Replicas compute the same on every processor: a product is rounded before it is added to something. Compilers fuse both into one step
/// where the processor has that, as all of arm64 do, and Lua's `a % b` is such a pair. And an integer that overflows does so as processors have
/// it: Lua looks for that afterwards, where a compiler may take it for impossible, and leave the look out.
fn choose_flags() {
    let flags = std::env::var("CFLAGS").unwrap_or_default();
    // SAFETY: this process has no other thread yet.
    unsafe { std::env::set_var("CFLAGS", format!("{flags} -ffp-contract=off -fwrapv")) };
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// Renames the calls in an archive of objects.
fn rename(archive: &mut [u8]) {
    assert!(archive.starts_with(MAGIC), "the compiler's archives are of another kind");
    let mut counts = [0; RENAMED.len()];
    let (mut at, mut long_names) = (MAGIC.len(), Vec::new());
    while let Some(header) = archive.get(at..at + HEADER_BYTES) {
        let word = |from: usize, to: usize| String::from_utf8_lossy(&header[from..to]).trim().to_owned();
        let (name, size) = (word(0, 16), word(48, 58).parse::<usize>().expect("the size of an object"));
        let body = &mut archive[at + HEADER_BYTES..at + HEADER_BYTES + size];
        match name.as_str() {
            // The names that the archive offers stay.
            "/" | "/SYM64/" => {}
            "//" => long_names = body.to_vec(),
            name => {
                let object = object_name(name, &long_names);
                for (renamed, count) in RENAMED.iter().zip(&mut counts) {
                    *count += rename_in(&object, body, renamed);
                }
            }
        }
        at += HEADER_BYTES + size + size % 2;
    }
    for (renamed, count) in RENAMED.iter().zip(counts) {
        assert!(count > 0, "no compiled part of Lua calls {}", renamed.names[0][0]);
    }
}

/// The name of an object, long ones are elsewhere.
fn object_name(name: &str, long_names: &[u8]) -> String {
    let long = name.strip_prefix('/').and_then(|at| at.parse::<usize>().ok()).and_then(|at| long_names.get(at..));
    let long =
        long.map(|rest| String::from_utf8_lossy(rest.split(|b| *b == b'/').next().unwrap_or_default()).into_owned());
    long.unwrap_or_else(|| name.trim_end_matches('/').to_owned())
}

/// Renames the calls of an object; how many names that were.
fn rename_in(object: &str, body: &mut [u8], renamed: &Renamed) -> usize {
    let is = |part: &str| object == part || object.strip_suffix(part).is_some_and(|rest| rest.ends_with('-'));
    if is(renamed.owner) || renamed.caller.is_some_and(|caller| !is(caller)) {
        return 0;
    }
    renamed.names.iter().map(|[from, to]| rename_one(body, from, to)).sum()
}

fn rename_one(body: &mut [u8], from: &str, to: &str) -> usize {
    let (from, to) = (format!("\0{from}\0"), format!("\0{to}\0"));
    assert_eq!(from.len(), to.len(), "a name of another length would move what is behind it");
    let places: Vec<usize> =
        body.windows(from.len()).enumerate().filter(|(_, part)| *part == from.as_bytes()).map(|(at, _)| at).collect();
    for &at in &places {
        body[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    places.len()
}
