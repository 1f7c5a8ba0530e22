"""What single operations allocate."""
