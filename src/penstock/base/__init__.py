"""Errors and limits: what every layer may use."""
