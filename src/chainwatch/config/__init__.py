"""What the user asks for: models, loading, errors with file and line, JSON Schema."""

from chainwatch.config.document import ConfigError, Problem
from chainwatch.config.load import LoadedConfig, load, schema
from chainwatch.config.models import Chain, Config

__all__ = ["Chain", "Config", "ConfigError", "LoadedConfig", "Problem", "load", "schema"]
