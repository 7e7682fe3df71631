-- additive
-- What a list is asked for beside its order. The new columns of an index are those of the page, so that it is read off.
create index deployments_version on deployments (tenant_id, image_version, created_at desc, seq desc);
create index deployments_type on deployments
  (tenant_id, (coalesce(source_config ->> 'deployment_type', 'prod')), created_at desc, seq desc);
create index deployments_address on deployments (tenant_id, (source_config ->> 'custom_url'))
  where source_config ->> 'custom_url' is not null;

-- Of one listener: those that change when it goes silent or is heard again.
create index deployments_listener on deployments (listener_id, status);

-- All three letters in a row of a name, each with the beginning of its workspace's id, so that one workspace does not
-- search in the names of another. Expressions alone: pg_trgm is not on every server.
create function name_parts(tenant_id uuid, name text) returns text[] language sql immutable parallel safe as $$
  select array_agg(distinct left(tenant_id::text, 8) || substr(lower(name), i, 3))
    from generate_series(1, length(name) - 2) i
$$;
create index deployments_name_parts on deployments using gin (name_parts(tenant_id, name)) with (gin_pending_list_limit = 512);
