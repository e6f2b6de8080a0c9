"""The Postgres wire protocol: a server that Postgres clients can use."""
