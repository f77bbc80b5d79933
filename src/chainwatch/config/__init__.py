"""What the user asks for: models, loading, errors with file and line, JSON Schema."""

from chainwatch.config.document import ConfigError, Problem
from chainwatch.config.judge import Rule
from chainwatch.config.load import LoadedConfig, load
from chainwatch.config.models import Chain, Config
from chainwatch.config.schema import schema

__all__ = ["Chain", "Config", "ConfigError", "LoadedConfig", "Problem", "Rule", "load", "schema"]
