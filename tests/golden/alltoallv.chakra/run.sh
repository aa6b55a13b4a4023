#!/bin/sh
# Runs this collective in ASTRA-sim; set ASTRA_SIM to the path of AstraSim_Analytical_Congestion_Unaware.
# (Its congestion-aware build takes networks of one dimension, the congestion-unaware build any.)
# ASTRA-sim looks for the algorithm's traces from where it is started, hence the cd.
cd "$(dirname "$0")" && exec "${ASTRA_SIM:-AstraSim_Analytical_Congestion_Unaware}" \
  --workload-configuration=workload --system-configuration=system.json \
  --remote-memory-configuration=memory.json --network-configuration=network.yml "$@"
