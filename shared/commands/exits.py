"""What a command's exit status means."""

PASS, NOT_YET, FAULT = 0, 1, 2


class BadCommand(ValueError):
    """The command line asks for what does not go together. The message says what."""
