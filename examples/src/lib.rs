//! What the example programs share: the picture that `deskgrid demo` computes.
//!
//! What is not here: anything of deskgrid's own rooms. The grid runs these programs as it would run
//! yours.

pub mod mandelbrot;
