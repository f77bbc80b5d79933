"""What runs inside the job; light imports only."""
