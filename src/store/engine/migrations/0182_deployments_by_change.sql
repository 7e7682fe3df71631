-- The list in order of the last change; the other orders have their indexes.
create index deployments_changed on deployments (tenant_id, updated_at desc, seq desc);
