"""The version of penstock: also in pyproject.toml, and a test compares them."""

VERSION = "0.1.0"
