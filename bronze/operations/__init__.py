"""What bronze does in the commands `plan`, `forget` and `status --verify`, and in quality."""
