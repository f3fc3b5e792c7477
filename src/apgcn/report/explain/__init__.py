"""A page that shows who listened how far."""
