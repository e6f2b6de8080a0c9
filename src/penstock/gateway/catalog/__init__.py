"""pg_catalog and information_schema: answered by a private PostgreSQL (docs/decisions/0012-pg-catalog.md)."""
