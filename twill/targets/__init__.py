"""What is specific to one GPU architecture, behind a `Target`."""
