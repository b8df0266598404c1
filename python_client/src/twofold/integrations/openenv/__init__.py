"""Games for OpenEnv, served over WebSockets. Clients can continue a game after a lost connection.

`app` makes the server, `client` contains the typed clients, and `models` defines their messages.
"""
