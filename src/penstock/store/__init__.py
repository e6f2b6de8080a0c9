"""Immutable objects under a storage URL: a folder, S3, Google Cloud Storage, Azure, or memory."""
