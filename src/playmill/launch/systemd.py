"""systemd units for the roles of a cluster: each role a service that may do little, all under one target."""

from __future__ import annotations

from playmill.launch.cluster import Cluster
from playmill.launch.crew import NOTICED, PATIENCE_S
from playmill.launch.plan import Placed, placed
from playmill.training.telemetry_settings import CREDENTIAL

HARDENING = """\
DynamicUser=yes
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
CapabilityBoundingSet=
UMask=0077
"""


def units(cluster: Cluster) -> dict[str, str]:
    """Files of the units by name. `%i` is the number of an actor."""
    prefix = f"playmill-{cluster.name}"
    roles = [one for one in placed(cluster) if one.role not in ("broker", "actor")]
    services = {f"{prefix}-{one.role}.service": _service(cluster, one) for one in roles}
    services[f"{prefix}-actor@.service"] = _service(cluster, Placed("actor", 0, ""))
    wanted = [name for name in services if "@" not in name]
    wanted += [f"{prefix}-actor@{number}.service" for number in range(cluster.actors.count)]
    target = (
        f"[Unit]\nDescription=Playmill cluster {cluster.name}\nWants={' '.join(wanted)}\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    return {f"{prefix}.target": target, **services}


def _service(cluster: Cluster, role: Placed) -> str:
    settings, prefix = cluster.systemd, f"playmill-{cluster.name}"
    number = " --number %i" if role.role == "actor" else ""
    state = f"{prefix}-actor-%i" if role.role == "actor" else f"{prefix}-learner"
    command = (
        f"{settings.playmill} join {settings.settings}/{cluster.name}.json {role.role}{number} "
        "--password-file %d/password"
    )
    token = f"LoadCredential={CREDENTIAL}:{settings.settings}/{cluster.name}.{CREDENTIAL}\n"
    token = token if cluster.train.telemetry.wide else ""
    return (
        f"[Unit]\nDescription=Playmill {cluster.name}: {role.role}\nPartOf={prefix}.target\n"
        "After=network-online.target\nWants=network-online.target\nStartLimitIntervalSec=0\n\n"
        f"[Service]\nExecStart={command}\n"
        f"LoadCredential=password:{settings.settings}/{cluster.name}.password\n{token}"
        f"StateDirectory={state}\nWorkingDirectory=%S/{state}\nEnvironment=HOME=%S/{state}\n"
        f"Restart=on-failure\nRestartSec=2\nRestartPreventExitStatus={NOTICED}\n"
        f"KillSignal=SIGTERM\nTimeoutStopSec={PATIENCE_S:g}\n{HARDENING}"
    )
