"""The compliance suite for any service that speaks the protocol, in any language.

    cd python_client && python -m pytest tests/compliance --endpoint tcp://host:port

This command runs the test cases against your own server, and closes all sessions at the end.
Without `--endpoint`, the cases run over every available carrier (transport). `refusals.py` lists
the requests that a service must refuse, each with the expected error.
"""
