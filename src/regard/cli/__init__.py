"""The command line. Imports torch only where a command needs it."""
