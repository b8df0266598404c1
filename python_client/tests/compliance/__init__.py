"""The compliance suite for any service that speaks the protocol, in whatever language.

    cd python_client && python -m pytest tests/compliance --endpoint tcp://host:port

runs them against a server of your own, and leaves no session there; without `--endpoint` they run
over every available carrier. `refusals.py` lists the requests to refuse, each with its error.
"""
