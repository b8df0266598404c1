"""Checks that show why Twofold does not work on this machine, and how to fix it."""

from twofold.doctor.findings import Finding
from twofold.doctor.machine import machine_findings
from twofold.doctor.network import network_findings
from twofold.doctor.service import service_findings

__all__ = ["Finding", "machine_findings", "network_findings", "service_findings"]
