"""What the user asks for: models, loading, errors with file and line, JSON Schema."""
