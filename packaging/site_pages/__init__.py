"""The parts of `docs/build`."""
