//! No notices: this system has no desktop that the worker knows how to speak to.

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::Notice;

/// Says so, and drops what is to be shown.
pub(super) fn serve() -> UnboundedSender<Notice> {
    tracing::warn!("`notify`: notices are shown on desktops of Linux only");
    unbounded_channel().0
}
