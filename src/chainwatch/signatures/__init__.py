"""What programs print when they end: data files, the Xid table, and the matcher."""
