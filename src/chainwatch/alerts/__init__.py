"""The outbox and its channels.

Owe a notice with `store.owe(chain, key, severity, title, body(Kind.…, what=…), now)`; `Deliverer` tells people.
"""

from chainwatch.alerts.build import build_all
from chainwatch.alerts.heartbeat import HeartbeatSender
from chainwatch.alerts.message import Kind, Message, body
from chainwatch.alerts.outbox import Deliverer, Report, routes_of

__all__ = ["Deliverer", "HeartbeatSender", "Kind", "Message", "Report", "body", "build_all", "routes_of"]
