"""A simulated cluster behind the Backend protocol, in virtual time."""
