"""One reader and writer per format."""
