"""Writing configurations for tests, and reading back what is said of them."""

from __future__ import annotations

import textwrap
from pathlib import Path

from chainwatch.config import Chain, Config, ConfigError, load


class Desk:
    """A directory to write configurations into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str, name: str = "chainwatch.yaml") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def load(self, text: str) -> Config:
        return load(self.write(text)).config

    def chain(self, text: str, name: str = "a") -> Chain:
        """The chain `a` of which `text` is the indented body."""
        body = textwrap.indent(textwrap.dedent(text), "    ")
        return self.load(f"chains:\n  {name}:\n    batch: train.sh\n{body}").chains[name]

    def problems(self, text: str) -> list[str]:
        """What is wrong, without the file's name: `3: chains.a.mode: …`."""
        path = self.write(text)
        try:
            load(path)
        except ConfigError as error:
            return [str(p).removeprefix(f"{path}:").strip() for p in error.problems]
        return []

    def chain_problems(self, text: str) -> list[str]:
        """What is wrong with the chain `a` of which `text` is the body; its first line is line 4."""
        body = textwrap.indent(textwrap.dedent(text), "    ")
        return self.problems(f"chains:\n  a:\n    batch: train.sh\n{body}")
