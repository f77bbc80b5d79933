"""Metrics and the status page: where they are served, and to whom."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from chainwatch.config.secrets import read_secret
from chainwatch.config.section import Section
from chainwatch.config.values import ExpandedPath


class Web(Section):
    """Metrics and the status page. By default on a Unix socket of mode 0600 in the state directory."""

    socket: ExpandedPath | Literal["off"] | None = None
    """Path of the Unix socket; by default `web.sock` in the state directory. `off`: none."""
    listen: str | None = None
    """Also listen on TCP, as `127.0.0.1:9470` or `[::1]:9470`. Every user of a login node reaches its loopback, so this
    needs a token."""
    token_file: ExpandedPath | None = None
    """File of mode 0600 with the token that TCP clients must send (`Authorization: Bearer …`)."""
    token_env: str | None = None
    """Environment variable with that token."""
    open_metrics: bool = False
    """Serve `/metrics` over TCP without a token. Everybody on the node then reads names and states of chains."""
    actions: bool = False
    """Put buttons on the page: pause, resume, retry, stop, observe and act. Each press carries a token of the page that
    showed it; the API takes the token of TCP clients. Off: the page only reads."""
    textfile: ExpandedPath | None = None
    """Also write the metrics to this file after each poll, for node_exporter's textfile collector (`….prom`)."""
    max_chains: int = Field(default=200, ge=1)
    """Most chains with metrics of their own; live ones come first. Bounds the number of series."""

    @field_validator("socket", mode="before")
    @classmethod
    def _yaml_off(cls, value: Any) -> Any:
        return "off" if value is False else value

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}", value):
            raise ValueError("an address with a port like 127.0.0.1:9470 is expected")
        return value

    @model_validator(mode="before")
    @classmethod
    def _no_token_in_the_open(cls, values: Any) -> Any:
        if isinstance(values, dict) and "token" in values:
            raise ValueError("token is a secret: write it to a file of mode 0600 and name that with token_file")
        return values

    @model_validator(mode="after")
    def _tcp_needs_a_token(self) -> Self:
        given = sum(1 for one in (self.token_file, self.token_env) if one)
        if self.listen and given != 1:
            raise ValueError("listen needs exactly one of token_file and token_env: any user of the node reaches it")
        if self.textfile is not None and self.textfile.suffix != ".prom":
            raise ValueError("node_exporter reads only files that end in .prom")
        return self

    def token(self) -> str:
        """The token of TCP clients. Raises `SecretUnusable`."""
        return read_secret(self.token_file, self.token_env, "the token of the status page")
