"""The whole daemon against the simulated cluster: histories, deaths, and what must never happen."""
