-- additive
-- The listener that built an image of the cluster and pushed it. null: no listener did.
alter table artifacts add column listener_id uuid;
update artifacts a set listener_id = (r.source_config ->> 'listener_id')::uuid
  from revisions r
 where r.artifact_id = a.id and r.source <> 'external_docker' and r.source_config ->> 'listener_id' is not null
   and a.manifest ->> 'kind' = 'image';

-- Images that a listener shall remove from its registry, because no revision needs them.
create table image_removals (
  listener_id uuid not null references listeners (id) on delete cascade,
  repository text not null,
  -- Digest of a manifest, or the tag of a cache.
  reference text not null,
  created_at timestamptz not null default now(),
  next_at timestamptz not null default now(),
  -- The attempt that runs until leased_until.
  lease_id uuid,
  leased_until timestamptz,
  primary key (listener_id, repository, reference)
);
create index image_removals_created on image_removals (created_at);
create index image_removals_leased on image_removals (repository, leased_until) where leased_until is not null;
