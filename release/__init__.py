"""What is checked before a version is published. Nothing here publishes anything."""
