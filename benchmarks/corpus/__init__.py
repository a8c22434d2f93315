"""SQL test files as streams and standing views: `python -m benchmarks.corpus FOLDER` counts what runs and is right."""
