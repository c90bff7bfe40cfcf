"""Networks over packed observations."""

from playmill.policies.expansion import PackedLinear, expand, unpack_bits
from playmill.policies.network import Network, Policy, PolicyOutput, masked_log_softmax

__all__ = [
    "Network",
    "PackedLinear",
    "Policy",
    "PolicyOutput",
    "expand",
    "masked_log_softmax",
    "unpack_bits",
]
