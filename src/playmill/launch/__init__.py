"""Clusters: the roles of the engine lane on machines, by local processes, ssh, Ray, Kubernetes or systemd."""
