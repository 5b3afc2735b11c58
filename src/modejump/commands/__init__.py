"""What the commands of the command line do, one module for each; imported when a command runs.

May import: everything below the command line.
"""
