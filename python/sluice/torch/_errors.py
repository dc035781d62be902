"""The one exception of this package."""


class SluiceError(RuntimeError):
    """Ranks disagree, somebody is missing, or a reduction failed; the message says who and what."""

    is_known_to_all = False  # Nobody has to be told by hanging up.
