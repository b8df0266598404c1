"""OpenEnv: games served over WebSockets, one to a connection, and found again after a lost one.

`app` makes the server, `client` has the typed clients, `models` what travels between them.
"""
