"""Jobs for any worker: what an executor has to do, and a job as plain JSON."""
