"""`python -m tokenmill` runs the command `tokenmill`."""

from tokenmill.pipeline.cli.main import run

if __name__ == "__main__":
    run()
