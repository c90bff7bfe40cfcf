"""Clusters: the roles of the engine lane on machines, by local processes, ssh, Kubernetes or systemd."""
