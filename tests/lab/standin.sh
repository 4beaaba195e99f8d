#!/bin/bash
# The simplest prolog that can be right: only for the lab's own tests.
set -eu
scontrol getaddrs "$SLURM_JOB_NODELIST" | sed 's/^[^ ]*: \(.*\):.*/\1/' > /run/standin.list
systemctl stop nvidia-imex
cp /run/standin.list /etc/nvidia-imex/nodes_config.cfg
systemctl start nvidia-imex
for _ in $(seq 100); do
  if nvidia-imex-ctl -N | grep -q '^Domain State: UP$'; then exit 0; fi
  sleep 0.1
done
echo "domain not UP" >&2
exit 6
