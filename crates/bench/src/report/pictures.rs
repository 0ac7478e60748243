//! A folder with every chart as PNG, for slides.

use std::fs;
use std::io;
use std::path::Path;

use super::html::Image;

/// The folder's name within a run's.
pub const CHARTS: &str = "charts";

/// Draws `images` into the folder `charts` of `dir`. What the user must know, if not all are there.
///
/// # Errors
/// One cannot be drawn or written.
pub fn write(dir: &Path, images: &[Image]) -> io::Result<Option<&'static str>> {
    if images.is_empty() {
        return Ok(None);
    }
    let folder = dir.join(CHARTS);
    fs::create_dir_all(&folder)?;
    for image in images {
        let Some(png) = image.png()? else {
            return Ok(Some("no font is installed, so there are no charts as PNG: fonts-dejavu-core is enough"));
        };
        let path = folder.join(&image.id).with_extension("png");
        fs::write(&path, png).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    }
    Ok(None)
}
