"""Many calls for a long time: nothing may grow."""
