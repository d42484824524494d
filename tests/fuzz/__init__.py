"""Input of any kind, made by hypothesis: no crash, no hang, and the same answer however it is cut."""
