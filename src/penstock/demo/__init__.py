"""A shop whose views keep up with its orders, live in the terminal: `python -m penstock.demo`."""
