"""Decision to effect: the only writers outside the store."""
