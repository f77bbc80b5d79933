"""The loop, the chain's state machine, and workers for slow disks."""
