"""The commands: one thin module each; latest, verify and exec start before the rest is imported."""
