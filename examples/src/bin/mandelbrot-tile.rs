//! Renders one tile of a Mandelbrot picture into a PNG file: the program that `deskgrid demo` sends
//! to its workers.
//!
//! It knows nothing of deskgrid. By hand: `mandelbrot-tile 320x200 320x200+0+0 whole.png`.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::process::ExitCode;

use examples::mandelbrot::{Size, Tile, View, render};

const USAGE: &str = "usage: mandelbrot-tile WIDTHxHEIGHT TILE FILE.png [RE IM SPAN ITERATIONS]
  TILE is WIDTHxHEIGHT+LEFT+TOP within the picture; RE, IM and SPAN choose the part of the plane";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match draw(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mandelbrot-tile: {error}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn draw(args: &[String]) -> Result<(), Box<dyn Error>> {
    let (picture, tile, file, view) = match args {
        [picture, tile, file] => (picture, tile, file, View::default()),
        [picture, tile, file, re, im, span, iterations] => {
            let view = View {
                re: re.parse()?,
                im: im.parse()?,
                span: span.parse()?,
                iterations: iterations.parse()?,
            };
            (picture, tile, file, view)
        }
        _ => return Err("three or seven arguments are needed".into()),
    };

    let (picture, tile): (Size, Tile) = (picture.parse()?, tile.parse()?);
    let pixels = render(&view, picture, tile);
    let mut encoder = png::Encoder::new(
        BufWriter::new(File::create(file)?),
        tile.size.width,
        tile.size.height,
    );
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;

    Ok(())
}
