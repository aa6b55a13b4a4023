"""The command `interlock`: one module per subcommand; only this package prints."""
