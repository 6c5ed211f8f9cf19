//! Cuts the picture into tiles, and assembles it from them.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::mandelbrot::{Size, Tile};
use crate::failure::Failure;
use crate::files;

/// The number of bytes of a pixel: red, green, blue.
const PIXEL: usize = 3;

/// The picture to be made, with its tiles and its file.
#[derive(Debug)]
pub(super) struct Canvas {
    size: Size,
    tiles: Vec<Tile>,
    file: NamedTempFile,
    path: PathBuf,
}

impl Canvas {
    /// Makes a canvas of `tiles` tiles. Its file is created at once, so that a path that cannot be
    /// written is found before the work.
    ///
    /// # Errors
    /// If there are more tiles than pixels, or the file cannot be written.
    pub(super) fn new(size: Size, tiles: u32, path: &Path) -> Result<Self, Failure> {
        let tiles = cut(size, tiles).ok_or_else(|| {
            let what = format!("{size} pixels cannot be cut into {tiles} tiles");
            Failure::usage(what, "fewer --tasks, or a larger picture")
        })?;

        if path.is_dir() {
            return Err(Failure::usage(
                format!("{} is a directory", path.display()),
                "--out FILE.png",
            ));
        }

        let dir = path
            .parent()
            .filter(|dir| !dir.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let file = NamedTempFile::new_in(dir)
            .map_err(|error| Failure::cannot("write the picture into", dir, &error))?;
        Ok(Self {
            size,
            tiles,
            file,
            path: path.to_owned(),
        })
    }

    /// Returns the tiles, one for each task.
    pub(super) fn tiles(&self) -> &[Tile] {
        &self.tiles
    }

    /// Assembles the picture from its tiles (PNG files, in the order of [`Canvas::tiles`]) and
    /// moves it into place.
    ///
    /// # Errors
    /// If a tile is missing or is not as expected, or the picture cannot be written.
    pub(super) fn assemble(mut self, files: &[PathBuf]) -> Result<(), Failure> {
        if files.len() != self.tiles.len() {
            let what = format!("{} of {} tiles came back", files.len(), self.tiles.len());
            return Err(Failure::error("tiles", what, ""));
        }

        let mut pixels = vec![0; self.size.width as usize * self.size.height as usize * PIXEL];
        for (tile, file) in self.tiles.iter().zip(files) {
            let tile_pixels = decode(file, tile.size).map_err(|error| {
                Failure::error("tiles", format!("the tile {tile} cannot be read"), "")
                    .because(error)
            })?;
            paste(&mut pixels, self.size, *tile, &tile_pixels);
        }

        let cannot = |error: std::io::Error| Failure::cannot("write", &self.path, &error);
        encode(self.file.as_file_mut(), self.size, &pixels)
            .map_err(|error| cannot(error.into()))?;
        self.file
            .persist(&self.path)
            .map_err(|error| cannot(error.error))?;

        files::permit(&self.path, false).map_err(cannot)
    }
}

/// Cuts the picture into exactly `count` tiles, as square as possible, in rows from the top.
fn cut(size: Size, count: u32) -> Option<Vec<Tile>> {
    let ideal = (f64::from(count) * f64::from(size.height) / f64::from(size.width))
        .sqrt()
        .round() as u32;
    let rows = ideal.clamp(1, count.min(size.height));
    let edge = |length: u32, part: u32, parts: u32| {
        (u64::from(length) * u64::from(part) / u64::from(parts)) as u32
    };
    let mut tiles = Vec::with_capacity(count as usize);

    for row in 0..rows {
        let top = edge(size.height, row, rows);
        let bottom = edge(size.height, row + 1, rows);
        let columns = edge(count, row + 1, rows) - edge(count, row, rows);
        if columns > size.width {
            return None;
        }

        for column in 0..columns {
            let left = edge(size.width, column, columns);
            let right = edge(size.width, column + 1, columns);
            tiles.push(Tile {
                size: Size {
                    width: right - left,
                    height: bottom - top,
                },
                left,
                top,
            });
        }
    }

    Some(tiles)
}

fn paste(pixels: &mut [u8], size: Size, tile: Tile, tile_pixels: &[u8]) {
    let row_bytes = tile.size.width as usize * PIXEL;
    for (row, line) in tile_pixels.chunks_exact(row_bytes).enumerate() {
        let at = ((tile.top as usize + row) * size.width as usize + tile.left as usize) * PIXEL;
        pixels[at..at + row_bytes].copy_from_slice(line);
    }
}

fn decode(path: &Path, size: Size) -> Result<Vec<u8>, png::DecodingError> {
    let mut reader = png::Decoder::new(BufReader::new(File::open(path)?)).read_info()?;
    let info = reader.info();
    let expected = info.width == size.width
        && info.height == size.height
        && info.color_type == png::ColorType::Rgb
        && info.bit_depth == png::BitDepth::Eight;

    if !expected {
        let what = format!(
            "it has {}x{} pixels of kind {:?}",
            info.width, info.height, info.color_type
        );
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, what).into());
    }

    let mut pixels = vec![0; size.width as usize * size.height as usize * PIXEL];
    reader.next_frame(&mut pixels)?;
    Ok(pixels)
}

fn encode(file: &mut File, size: Size, pixels: &[u8]) -> Result<(), png::EncodingError> {
    let mut buffer = BufWriter::new(file);
    let mut encoder = png::Encoder::new(&mut buffer, size.width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(buffer.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws a picture in which every pixel differs from its neighbours.
    fn pattern(size: Size) -> Vec<u8> {
        let pixel = |x: u32, y: u32| [x as u8, y as u8, (x / 256 + 3 * y) as u8];
        (0..size.height)
            .flat_map(|y| (0..size.width).flat_map(move |x| pixel(x, y)))
            .collect()
    }

    fn crop(pixels: &[u8], size: Size, tile: Tile) -> Vec<u8> {
        let rows = tile.top..tile.top + tile.size.height;
        let row = |y: u32| {
            let at = (y as usize * size.width as usize + tile.left as usize) * PIXEL;
            pixels[at..at + tile.size.width as usize * PIXEL].to_vec()
        };
        rows.flat_map(row).collect()
    }

    #[test]
    fn any_number_of_tiles_covers_each_pixel_once() {
        let size = Size {
            width: 97,
            height: 61,
        };
        for count in [1, 2, 3, 7, 13, 100, 199, 1_000] {
            let tiles = cut(size, count).unwrap();
            assert_eq!(tiles.len(), count as usize);
            let mut hits = vec![0u8; 97 * 61];
            for tile in tiles {
                assert!(tile.size.width > 0 && tile.size.height > 0);
                for y in tile.top..tile.top + tile.size.height {
                    (tile.left..tile.left + tile.size.width)
                        .for_each(|x| hits[(y * 97 + x) as usize] += 1);
                }
            }
            assert!(hits.iter().all(|n| *n == 1), "{count}");
        }

        assert_eq!(
            cut(
                Size {
                    width: 16,
                    height: 16
                },
                2_000
            ),
            None
        );
    }

    #[test]
    fn tiles_assemble_to_the_picture_they_were_cut_from() {
        let dir = tempfile::tempdir().unwrap();
        let size = Size {
            width: 90,
            height: 50,
        };
        let out = dir.path().join("out.png");
        let whole = pattern(size);
        let canvas = Canvas::new(size, 7, &out).unwrap();
        let write = |(i, tile): (usize, &Tile)| {
            let path = dir.path().join(format!("{i}.png"));
            encode(
                &mut File::create(&path).unwrap(),
                tile.size,
                &crop(&whole, size, *tile),
            )
            .unwrap();
            path
        };
        let files: Vec<_> = canvas.tiles().iter().enumerate().map(write).collect();
        canvas.assemble(&files).unwrap();

        assert_eq!(decode(&out, size).unwrap(), whole);
    }

    #[test]
    fn a_missing_or_wrong_tile_is_an_error_and_leaves_no_picture() {
        let dir = tempfile::tempdir().unwrap();
        let size = Size {
            width: 40,
            height: 20,
        };
        let out = dir.path().join("out.png");
        let failure = Canvas::new(size, 2, &out)
            .unwrap()
            .assemble(&[])
            .unwrap_err();
        assert_eq!(failure.what, "0 of 2 tiles came back");

        let wrong = dir.path().join("wrong.png");
        encode(&mut File::create(&wrong).unwrap(), size, &pattern(size)).unwrap();

        let failure = Canvas::new(size, 2, &out)
            .unwrap()
            .assemble(&[wrong.clone(), wrong])
            .unwrap_err();
        assert!(failure.because.unwrap().contains("40x20") && !out.exists());
    }
}
