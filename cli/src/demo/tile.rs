//! Renders one tile of the demo's picture into a PNG file: the program of the demo's tasks. It is
//! part of `deskgrid` so that the demo needs no second binary.

use std::fs::File;
use std::io::BufWriter;

use super::mandelbrot::{View, render};
use crate::args::serve::TileArgs;
use crate::failure::{Exit, Failure};

/// Renders the tile that `args` name.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn run(args: &TileArgs) -> Result<Exit, Failure> {
    let pixels = render(&View::default(), args.picture, args.tile);
    draw(args, &pixels).map_err(|error| Failure::cannot("write the tile", &args.file, &error))?;
    Ok(Exit::Well)
}

fn draw(args: &TileArgs, pixels: &[u8]) -> std::io::Result<()> {
    let file = BufWriter::new(File::create(&args.file)?);
    let mut encoder = png::Encoder::new(file, args.tile.size.width, args.tile.size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);

    let written = encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(pixels));
    written.map_err(std::io::Error::other)
}
