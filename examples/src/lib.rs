//! The code that the example programs share: the picture that `deskgrid demo` computes.
//!
//! It uses no crate of deskgrid: the grid runs these programs as it would run yours.

pub mod mandelbrot;
