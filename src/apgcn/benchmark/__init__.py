"""The evaluation protocol as software: plans, records, resume, every table and figure of the paper."""
