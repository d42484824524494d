"""Arguments as they are typed on a command line."""
