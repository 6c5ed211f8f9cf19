//! stub
pub(crate) async fn run(
    _: &crate::output::Output,
    _: &crate::args::serve::DemoArgs,
) -> Result<crate::failure::Exit, crate::failure::Failure> {
    Ok(crate::failure::Exit::Well)
}
