"""What any service that speaks the protocol has to do: cases that know no implementation.

    cd python_client && python -m pytest tests/compliance --endpoint tcp://host:port

runs them against a server of your own, and leaves no session there; without `--endpoint` they run
over every carrier that there is. `refusals.py` lists what has to be refused, and with what error.
"""
