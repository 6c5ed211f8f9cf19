//! A view of the Mandelbrot set in smooth colours with a light on it. Pure functions: the same
//! pixel has the same colour whoever computes it, so tiles fit together without a seam.
//!
//! Colour: the continuous escape count runs through a cyclic palette. Light: the exterior distance
//! estimate gives a slope at each point, which a lamp at the upper left brightens or darkens
//! (Peitgen and Richter 1986, section 2).

use std::fmt;
use std::str::FromStr;

/// Samples of a pixel along each axis; their colours are averaged.
const SAMPLES: u32 = 3;
/// Squared distance from the origin beyond which a point counts as escaped; large, so that colours
/// are smooth.
const BAILOUT: f64 = 1e6;
/// The iterations of the palette's first round; later rounds are longer.
const PALETTE_ROUND: f64 = 3.2;

/// The part of the complex plane that the picture shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct View {
    /// Real part of the centre.
    pub re: f64,
    /// Imaginary part of the centre.
    pub im: f64,
    /// Width of the picture in the plane.
    pub span: f64,
    /// Points that have not escaped after this many iterations count as inside.
    pub iterations: u32,
}

impl Default for View {
    fn default() -> Self {
        View {
            re: -0.743_643_887_037_151,
            im: 0.131_825_904_205_33,
            span: 0.000_051_299,
            iterations: 5_000,
        }
    }
}

/// Width and height of a picture in pixels; written `1280x800`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// A rectangle of a picture, in pixels from its upper left corner; written `WIDTHxHEIGHT+LEFT+TOP`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Its own size.
    pub size: Size,
    /// Columns of the picture to its left.
    pub left: u32,
    /// Rows of the picture above it.
    pub top: u32,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for Size {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let parse = || {
            let (width, height) = s.split_once('x')?;
            Some(Size {
                width: width.parse().ok()?,
                height: height.parse().ok()?,
            })
        };
        parse()
            .filter(|size| size.width > 0 && size.height > 0)
            .ok_or_else(|| format!("`{s}` is not a size such as 1280x800"))
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}+{}", self.size, self.left, self.top)
    }
}

impl FromStr for Tile {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = s.split('+');
            let size = parts.next()?.parse().ok()?;
            let left = parts.next()?.parse().ok()?;
            let top = parts.next()?.parse().ok()?;
            parts.next().is_none().then_some(Tile { size, left, top })
        };
        parse().ok_or_else(|| {
            format!("`{s}` is not a tile such as 64x50+128+100 (WIDTHxHEIGHT+LEFT+TOP)")
        })
    }
}

/// The tile's pixels, row by row, as red, green, blue.
pub(super) fn render(view: &View, picture: Size, tile: Tile) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(tile.size.width as usize * tile.size.height as usize * 3);
    for y in tile.top..tile.top + tile.size.height {
        for x in tile.left..tile.left + tile.size.width {
            pixels.extend(pixel(view, picture, x, y));
        }
    }
    pixels
}

fn pixel(view: &View, picture: Size, x: u32, y: u32) -> [u8; 3] {
    let step = view.span / f64::from(picture.width);
    let offset = |i: u32| (f64::from(i) + 0.5) / f64::from(SAMPLES);
    let mut sum = [0.0; 3];

    for (i, j) in (0..SAMPLES).flat_map(|i| (0..SAMPLES).map(move |j| (i, j))) {
        let re = view.re + (f64::from(x) + offset(i) - f64::from(picture.width) / 2.0) * step;
        let im = view.im - (f64::from(y) + offset(j) - f64::from(picture.height) / 2.0) * step;
        let colour = sample(re, im, view.iterations, step);
        sum.iter_mut()
            .zip(colour)
            .for_each(|(total, part)| *total += part);
    }

    // The average is of light, not of its encoding: hence the power after it.
    sum.map(|light| {
        ((light / f64::from(SAMPLES * SAMPLES))
            .clamp(0.0, 1.0)
            .powf(1.0 / 2.2)
            * 255.0)
            .round() as u8
    })
}

/// The light (linear red, green, blue) of one point.
fn sample(re: f64, im: f64, iterations: u32, step: f64) -> [f64; 3] {
    let mut zr = 0.0_f64;
    let mut zi = 0.0_f64;
    let mut dr = 0.0_f64;
    let mut di = 0.0_f64;

    for n in 0..iterations {
        (dr, di) = (2.0 * (zr * dr - zi * di) + 1.0, 2.0 * (zr * di + zi * dr));
        (zr, zi) = (zr * zr - zi * zi + re, 2.0 * zr * zi + im);
        let norm = zr * zr + zi * zi;
        if norm > BAILOUT {
            let count = f64::from(n) + 1.0 - (norm.ln() / BAILOUT.ln()).log2();
            return lit(palette(count), (zr, zi), (dr, di), step);
        }
    }

    [0.0; 3]
}

fn lit(colour: [f64; 3], z: (f64, f64), d: (f64, f64), step: f64) -> [f64; 3] {
    let d_norm = d.0 * d.0 + d.1 * d.1;
    // z / z' points up the slope of the potential.
    let ur = (z.0 * d.0 + z.1 * d.1) / d_norm;
    let ui = (z.1 * d.0 - z.0 * d.1) / d_norm;
    let length = ur.hypot(ui).max(f64::MIN_POSITIVE);
    let lamp_re = -std::f64::consts::FRAC_1_SQRT_2;
    let lamp_im = std::f64::consts::FRAC_1_SQRT_2;
    let height = 1.6;
    let slope = ((ur * lamp_re + ui * lamp_im) / length + height) / (1.0 + height);

    // Filaments thinner than a pixel fade into the dark instead of flickering.
    let modulus = z.0.hypot(z.1);
    let distance = modulus * modulus.ln() / d_norm.sqrt() / step;
    let nearness = (distance * 1.5).clamp(0.0, 1.0).powf(0.35);
    colour.map(|part| part * (0.25 + 0.95 * slope.clamp(0.0, 1.0)) * (0.15 + 0.85 * nearness))
}

/// A cyclic palette from deep blue over white and gold to dark red and back.
fn palette(count: f64) -> [f64; 3] {
    const STOPS: [[f64; 3]; 6] = [
        [0.00, 0.03, 0.14],
        [0.02, 0.16, 0.50],
        [0.78, 0.92, 1.00],
        [1.00, 0.66, 0.10],
        [0.45, 0.07, 0.02],
        [0.04, 0.01, 0.08],
    ];

    let place = (count.max(1.0).ln() * PALETTE_ROUND).rem_euclid(1.0) * STOPS.len() as f64;
    let at = place.floor() as usize % STOPS.len();
    let part = place.fract();
    let smooth = part * part * (3.0 - 2.0 * part);
    std::array::from_fn(|i| {
        STOPS[at][i] + (STOPS[(at + 1) % STOPS.len()][i] - STOPS[at][i]) * smooth
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: View = View {
        re: -0.7436,
        im: 0.1318,
        span: 0.01,
        iterations: 300,
    };

    #[test]
    fn tiles_put_together_are_the_picture_rendered_in_one_piece() {
        let picture: Size = "40x30".parse().unwrap();
        let whole = render(&VIEW, picture, "40x30+0+0".parse().unwrap());
        let mut assembled = vec![0; whole.len()];

        for tile in ["13x30+0+0", "27x11+13+0", "27x19+13+11"] {
            let tile: Tile = tile.parse().unwrap();
            let pixels = render(&VIEW, picture, tile);
            let row_bytes = tile.size.width as usize * 3;
            for (row, line) in pixels.chunks_exact(row_bytes).enumerate() {
                let at = ((tile.top as usize + row) * 40 + tile.left as usize) * 3;
                assembled[at..at + row_bytes].copy_from_slice(line);
            }
        }

        assert_eq!(assembled, whole);
    }

    #[test]
    fn the_same_tile_has_the_same_pixels_and_is_not_blank() {
        let picture: Size = "64x48".parse().unwrap();
        let tile: Tile = "16x16+8+8".parse().unwrap();
        let pixels = render(&VIEW, picture, tile);
        assert_eq!(pixels, render(&VIEW, picture, tile));
        let colours: std::collections::BTreeSet<_> = pixels.chunks_exact(3).collect();
        assert!(colours.len() > 20, "only {} colours", colours.len());
    }

    #[test]
    fn points_of_the_set_are_black() {
        assert_eq!(sample(0.0, 0.0, 100, 0.01), [0.0; 3]);
        assert_ne!(sample(0.5, 0.5, 100, 0.01), [0.0; 3]);
    }

    #[test]
    fn sizes_and_tiles_that_make_no_sense_are_refused() {
        for wrong in ["", "0x5", "5", "5x", "axb"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
        for wrong in ["", "5x5", "5x5+1", "5x5+1+1+1", "5x5+-1+2"] {
            assert!(wrong.parse::<Tile>().is_err(), "{wrong}");
        }
    }
}
