"""The main job, end to end: federated averaging through secure aggregation, on bundled data."""
