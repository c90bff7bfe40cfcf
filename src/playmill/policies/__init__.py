"""Networks over packed observations."""

from playmill.policies.attention import TokenFeatures, token_features
from playmill.policies.boards import PlaneFeatures, patch_features, plane_features
from playmill.policies.expansion import Expand, PackedLinear, expand, unpack_bits
from playmill.policies.flops import forward_flops, network_cost
from playmill.policies.network import Network, Policy, PolicyOutput, masked_log_softmax

__all__ = [
    "Expand",
    "Network",
    "PackedLinear",
    "PlaneFeatures",
    "Policy",
    "PolicyOutput",
    "TokenFeatures",
    "expand",
    "forward_flops",
    "masked_log_softmax",
    "network_cost",
    "patch_features",
    "plane_features",
    "token_features",
    "unpack_bits",
]
