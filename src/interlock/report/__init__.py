"""What people see: report pages, sweeps, and the papers' claims beside ours."""
