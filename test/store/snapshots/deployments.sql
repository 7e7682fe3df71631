-- lockDeployment
select 
  d.id, d.tenant_id, d.listener_id, d.name, d.slug, d.display_name, d.source, d.tracked_ref, d.tracked_packages, d.secret_set_id, d.status, d.health, d.health_since, d.health_reason, d.health_message, d.health_failure, d.latest_revision_id, d.active_revision_id, d.image_version, d.shareable, d.route_through_gateway, d.agent_environment, d.deployment_tier, d.compute_tier, d.database_tier, d.is_preview, d.parent_deployment_id, d.tracer_session_id, d.created_at, d.updated_at, coalesce(d.agent_name, d.agent_id::text) as agent_id,
  d.source_revision_config || jsonb_build_object('repo_commit_sha', (
    select r.source_revision_config -> 'repo_commit_sha' from revisions r where r.id = d.latest_revision_id
  )) as source_revision_config,
  (select l.facts ->> 'agents_url' from listeners l where l.id = d.listener_id) as agents_url,
  case when d.health in ('crash_looping', 'degraded') and d.health_reason is distinct from 'NewRevisionFailed' then exists (
    select from revisions e where e.deployment_id = d.id and e.status = 'DEPLOYED' and e.id <> d.active_revision_id
  ) else false end as can_roll_back, s.data_key_id as secrets_key_id, d.source_config, d.secret_references, s.sealed as sealed_secrets from deployments d left join secret_sets s on s.id = d.secret_set_id
     where d.id = $1 and d.tenant_id = $2 for update of d;

-- readDeploymentState
select d.id, d.tenant_id, d.status, d.active_revision_id, d.force_delete,
      json_build_object('word', d.health, 'reason', d.health_reason, 'message', d.health_message, 'failure', d.health_failure) as health,
      (select json_build_object('id', r.id, 'status', r.status, 'message', left(r.status_message, 4000), 'failure', r.failure)
         from revisions r where r.id = d.latest_revision_id) as latest,
      coalesce((
        select case when l.lease_until > now() and not l.drain then 'acting'
                    when coalesce(l.last_seen_at, l.created_at) > now() - 86400000 * interval '1 millisecond'
                      then 'awaited' end
          from listeners l where l.id = d.listener_id), 'gone') as listener,
      coalesce((
        select json_agg(json_build_object('id', r.id, 'status', r.status, 'since', r.status_since,
                 'message', r.status_message, 'deadline_at', case when r.deadline_at < r.status_since
  then r.status_since + 1800000 * interval '1 millisecond' else r.deadline_at end,
                 'has_artifact', r.artifact_id is not null, 'traceparent', r.traceparent) order by r.seq)
          from revisions r
         where r.deployment_id = d.id
           and "r"."status" in ('CREATING', 'QUEUED', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'UNKNOWN')
      ), '[]'::json) as unsettled,
      coalesce((
        select json_agg(json_build_object('revision_id', b.revision_id, 'status', b.status, 'lease_until', b.lease_until,
                 'attempts', b.attempts,
                 'failure', b.result ->> 'failure', 'reason', b.result ->> 'reason'))
          from revisions r join builds b on b.revision_id = r.id
         where r.deployment_id = d.id and (b.status = 'running' or r.status = 'BUILDING')
      ), '[]'::json) as builds,
      (select json_build_object('generation', a.generation, 'op', a.op,
                'target_revision_id', a.spec -> 'target' ->> 'revision_id',
                'serving_revision_id', a.spec -> 'serving' ->> 'revision_id',
                'target_replicas_min', least((a.spec #> '{target,min_replicas}')::integer,
                  case a.spec #>> '{target,artifact,rollout}' when 'handover' then 1 end), 'serving_replicas_min', least((a.spec #> '{serving,min_replicas}')::integer,
                  case a.spec #>> '{serving,artifact,rollout}' when 'handover' then 1 end),
                'is_current', a.spec ->> 'agents_url' is not distinct from l.facts ->> 'agents_url')
         from assignments a join listeners l on l.id = a.listener_id where a.deployment_id = d.id) as assignment,
      (select json_build_object('generation', o.generation, 'report', o.report)
         from observations o where o.deployment_id = d.id) as observation,
      (select json_build_object('status', t.status, 'retry_at', t.retry_at)
         from tracing_projects t where t.deployment_id = d.id) as tracing,
      d.delete_tracing_project and coalesce(d.agent_name, d.agent_id::text) is null as drops_tracing,
      case when d.source = 'github' then json_build_object(
        'is_following', not d.is_preview and d.tracked_ref not like 'refs/tags/%' and (
           coalesce((d.source_config ->> 'build_on_push')::boolean, false)
           or exists (select 1 from git_settings g where g.deployment_id = d.id and g.preview @> '{"enabled":true}')
           or exists (select 1 from previews p where p.parent_id = d.id)),
        'look_at', (select w.look_at from branch_watches w where w.deployment_id = d.id),
        'reports', coalesce((select json_agg(json_build_object('status', r.status, 'reported', c.reported, 'retry_at', c.retry_at))
           from commit_reports c join revisions r on r.id = c.revision_id
          where c.deployment_id = d.id and not c.is_settled), '[]'::json),
        'comment', (select json_build_object('status', r.status, 'head_sha', p.head_sha, 'commented', p.commented,
                             'retry_at', p.retry_at)
           from previews p left join revisions r on r.id = d.latest_revision_id where p.deployment_id = d.id)) end as host
      from deployments d where d.id = any($1::uuid[]);

-- moveDeployment
with wanted as (
      select * from jsonb_to_recordset($1::jsonb)
        as w (n integer, id uuid, "from" text, "to" text, message text, by_pass boolean,
                default_engine text)
    ), moved as (
      update deployments d set status = w."to", status_since = now(), updated_at = now(),
             default_engine = coalesce(w.default_engine, d.default_engine)
        from wanted w
       where d.id = any($2::uuid[]) and d.id = w.id and d.status = w."from"
      returning w.n, d.id as deployment_id, d.tenant_id, w."from", w."to", w.message, w.by_pass
    ), event as (
      insert into events (tenant_id, deployment_id, kind, data)
      select tenant_id, deployment_id, 'deployment.status',
             jsonb_strip_nulls(jsonb_build_object('from', "from", 'to', "to", 'message', message))
        from moved order by deployment_id
    ), due as (
      insert into reconcile_queue (deployment_id, run_at)
      select distinct deployment_id, now() from "moved" where not "by_pass" order by deployment_id
      on conflict (deployment_id) do update
         set run_at = least(reconcile_queue.run_at, excluded.run_at), generation = reconcile_queue.generation + 1
    )
    select n from moved;

-- deploymentPage
select * from (
      select 
  d.id, d.tenant_id, d.listener_id, d.name, d.slug, d.display_name, d.source, d.tracked_ref, d.tracked_packages, d.secret_set_id, d.status, d.health, d.health_since, d.health_reason, d.health_message, d.health_failure, d.latest_revision_id, d.active_revision_id, d.image_version, d.shareable, d.route_through_gateway, d.agent_environment, d.deployment_tier, d.compute_tier, d.database_tier, d.is_preview, d.parent_deployment_id, d.tracer_session_id, d.created_at, d.updated_at, coalesce(d.agent_name, d.agent_id::text) as agent_id,
  d.source_revision_config || jsonb_build_object('repo_commit_sha', (
    select r.source_revision_config -> 'repo_commit_sha' from revisions r where r.id = d.latest_revision_id
  )) as source_revision_config,
  (select l.facts ->> 'agents_url' from listeners l where l.id = d.listener_id) as agents_url,
  case when d.health in ('crash_looping', 'degraded') and d.health_reason is distinct from 'NewRevisionFailed' then exists (
    select from revisions e where e.deployment_id = d.id and e.status = 'DEPLOYED' and e.id <> d.active_revision_id
  ) else false end as can_roll_back, s.data_key_id as secrets_key_id,
  case when size.bytes <= 65536 then s.sealed end as sealed_secrets,
  case when size.bytes <= 65536 then d.source_config end as source_config,
  case when size.bytes <= 65536 then d.secret_references end as secret_references,
  case when size.bytes > 65536 then size.bytes end as large_bytes from deployments d left join secret_sets s on s.id = d.secret_set_id cross join lateral (
  select coalesce(octet_length(s.sealed), 0) + octet_length(d.source_config::text)
         + coalesce(octet_length(d.secret_references::text), 0) as bytes offset 0) size
       where d.tenant_id = $1 and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE') order by "d"."created_at" desc, "d"."seq" desc limit 100) longest limit $2;

-- deploymentPage with a part of the name
select 
  d.id, d.tenant_id, d.listener_id, d.name, d.slug, d.display_name, d.source, d.tracked_ref, d.tracked_packages, d.secret_set_id, d.status, d.health, d.health_since, d.health_reason, d.health_message, d.health_failure, d.latest_revision_id, d.active_revision_id, d.image_version, d.shareable, d.route_through_gateway, d.agent_environment, d.deployment_tier, d.compute_tier, d.database_tier, d.is_preview, d.parent_deployment_id, d.tracer_session_id, d.created_at, d.updated_at, coalesce(d.agent_name, d.agent_id::text) as agent_id,
  d.source_revision_config || jsonb_build_object('repo_commit_sha', (
    select r.source_revision_config -> 'repo_commit_sha' from revisions r where r.id = d.latest_revision_id
  )) as source_revision_config,
  (select l.facts ->> 'agents_url' from listeners l where l.id = d.listener_id) as agents_url,
  case when d.health in ('crash_looping', 'degraded') and d.health_reason is distinct from 'NewRevisionFailed' then exists (
    select from revisions e where e.deployment_id = d.id and e.status = 'DEPLOYED' and e.id <> d.active_revision_id
  ) else false end as can_roll_back, s.data_key_id as secrets_key_id,
  case when size.bytes <= 65536 then s.sealed end as sealed_secrets,
  case when size.bytes <= 65536 then d.source_config end as source_config,
  case when size.bytes <= 65536 then d.secret_references end as secret_references,
  case when size.bytes > 65536 then size.bytes end as large_bytes from (
    with walked as materialized (
      select * from (select d.id, d.seq, d.name, d.status, d.health, d.created_at, d.updated_at, d.listener_id from deployments d where d.tenant_id = $1 and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE') order by "d"."created_at" desc, "d"."seq" desc limit 1000) longest limit $2 
    ), met as materialized (
      select * from (select d.id, d.seq, d.name, d.status, d.health, d.created_at, d.updated_at from walked d where strpos(lower(d.name), lower($3)) > 0 limit 100) longest limit $4 
    ), near as materialized (
      select * from (
    select d.* from (select min(created_at) as oldest, max(created_at) as newest from walked) walk,
           generate_series(0, 63) days (passed),
           lateral (
             select d.id, d.seq, d.name, d.status, d.health, d.created_at, d.updated_at from deployments d where name_parts(d.tenant_id, d.name) @> (select rare_parts(array(
      select left($5::text, 8) || substr(lower($6), i, 3)
        from (select generate_series(1, length($7) - 2, 3) union select length($8) - 2) at (i)))) and created_on(d.created_at) @> array[(created_on(newest))[1] - days.passed]
                and d.tenant_id = $9 and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE') and strpos(lower(d.name), lower($10)) > 0 order by "d"."created_at" desc, "d"."seq" desc offset 0) d
     where (select count(*) from met) between 3 and $11::bigint - 1
       and (select count(*) from met)::float8 * interval '64 days' >= (newest - oldest) * $12::float8
       and (select count(*) from walked) >= 1000 limit 100) longest limit $13 
    ), found as materialized (
      select * from (select d.id, d.seq, d.name, d.status, d.health, d.created_at, d.updated_at from deployments d where name_parts(d.tenant_id, d.name) @> (select rare_parts(array(
      select left($14::text, 8) || substr(lower($15), i, 3)
        from (select generate_series(1, length($16) - 2, 3) union select length($17) - 2) at (i)))) and coalesce(d.tenant_id = $18, false) and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE') and strpos(lower(d.name), lower($19)) > 0
               and greatest((select count(*) from met), (select count(*) from near)) < $20
               and (select count(*) from walked) = $21 limit 10000) longest limit $22 
    ), further as materialized (
      select * from (select d.id, d.seq, d.name, d.status, d.health, d.created_at, d.updated_at from deployments d where d.tenant_id = $23 and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE') and strpos(lower(d.name), lower($24)) > 0
               and (select count(*) from found) = 10000 order by "d"."created_at" desc, "d"."seq" desc limit 100) longest limit $25 
    )
    select * from (
      select d.id, d.seq, d.name, d.status, d.health, d.created_at, d.updated_at from deployments d where d.tenant_id = $26 and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE') and strpos(lower(d.name), lower($27)) > 0 and d.name = $28 union
      select * from met union select * from near union select * from found union select * from further) d
     order by (d.name = $29) desc, "d"."created_at" desc, "d"."seq" desc limit $30 offset $31) page
      join deployments d on d.id = page.id left join secret_sets s on s.id = d.secret_set_id cross join lateral (
  select coalesce(octet_length(s.sealed), 0) + octet_length(d.source_config::text)
         + coalesce(octet_length(d.secret_references::text), 0) as bytes offset 0) size
     order by (d.name = $32) desc, "d"."created_at" desc, "d"."seq" desc;
