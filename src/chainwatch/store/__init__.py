"""What we remember: schema, migrations and queries."""
