-- additive
-- Beside the parts of its name, the day of a deployment, in UTC: where many have a part, those of the newest days are found
-- first, and not all of them. One index of both, so that it passes over the other days; what asked for parts alone still does.
create function created_on(created_at timestamptz) returns int[] language sql immutable parallel safe as $$
  select array[(created_at at time zone 'UTC')::date - date '2000-01-01']
$$;
drop index deployments_name_parts;
create index deployments_name_parts on deployments
  using gin (name_parts(tenant_id, name), created_on(created_at)) with (gin_pending_list_limit = 512);

-- Of these parts those that are to be looked for: as the planner knows them, the rarest that together leave ten of a million.
-- More say nothing, and the list of one that every name has takes milliseconds to read. Those it does not know are rare.
create function rare_parts(parts text[]) returns text[] language plpgsql stable parallel safe as $$
declare
  -- Sorted, which lets one be found without comparing it to a thousand.
  known text[];
  shares float4[];
  rare text[];
  remaining float8 := 1;
  one record;
begin
  select most_common_elems::text::text[], most_common_elem_freqs into known, shares from pg_stats
   where schemaname = current_schema() and tablename = 'deployments_name_parts' and attname = 'name_parts';
  for one in
    select part, case when known[place] = part then shares[place] end as share
      from unnest(parts) part, width_bucket(part, known) place order by share nulls first
  loop
    exit when one.share is not null and remaining < 0.00001;
    rare := rare || one.part;
    remaining := remaining * coalesce(one.share, 0.001);
  end loop;
  return rare;
end $$;

-- With the deployment, so that a page of a tag is not also fetched from all over this table.
drop index deployment_tags_order;
create index deployment_tags_order on deployment_tags (tag_value_id, created_at desc, seq desc) include (deployment_id);
