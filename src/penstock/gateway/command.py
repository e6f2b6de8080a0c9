"""What the server's own statements have in common."""


class Command:
    """A statement that is the server's and not the engine's."""
