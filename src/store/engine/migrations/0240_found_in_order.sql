-- additive
-- The two filters whose rows were fetched from all over the table and sorted: of one tag, of one environment.
create index deployments_environment on deployments (tenant_id, agent_environment, created_at desc, seq desc)
  where agent_id is not null;

-- A tag of a deployment knows its place in the order of the list. A trigger writes it, as the version before does not.
alter table deployment_tags add column created_at timestamptz, add column seq bigint;
update deployment_tags t set created_at = d.created_at, seq = d.seq from deployments d where d.id = t.deployment_id;
create function place_tag() returns trigger language plpgsql as $$
begin
  if new.seq is null then
    select d.created_at, d.seq into new.created_at, new.seq from deployments d where d.id = new.deployment_id;
  end if;
  return new;
end $$;
create trigger place_tag before insert on deployment_tags for each row execute function place_tag();
create index deployment_tags_order on deployment_tags (tag_value_id, created_at desc, seq desc);
