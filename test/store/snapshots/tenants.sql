-- findQuotas
select deployments_max as deployments, replicas_max as replicas, build_minutes_max as "buildMinutes"
      from quotas where tenant_id = $1;

-- readUsage
select source_config ->> 'deployment_type' as deployment_type,
           jsonb_build_object('min_scale', source_config #> '{resource_spec,min_scale}',
                              'max_scale', source_config #> '{resource_spec,max_scale}') as resource_spec, count(*) as n
      from deployments
     where tenant_id = $1 and status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')
       and ($2::uuid is null or id <> $3)
     group by 1, 2;

-- readUsage
select to_char(now() at time zone 'utc', 'YYYY-MM') as month,
           coalesce((select u.build_ms from build_usage u where u.tenant_id = $1 and u.month = to_char(now() at time zone 'utc', 'YYYY-MM')), 0)
           + coalesce((select sum(greatest(0, extract(epoch from least(b.lease_until, now()) - b.started_at) * 1000))
                         from builds b join revisions r on r.id = b.revision_id
                        where b.status = 'running' and r.tenant_id = $2), 0)::bigint as build_ms;

-- findMemberships
select m.id, m.organization_id, m.workspace_id, m.email, m.name, m.role, null as listener_id,
           false as is_operator, w.deployments_enabled
      from members m left join workspaces w on w.id = m.workspace_id
     where m.email = $1 order by min(m.created_at) over (partition by m.organization_id), m.organization_id, array_position(array['admin', 'deployer', 'reader'], m.role), m.workspace_id nulls first, m.id;

-- consumeSignIn
delete from sign_ins where token_hash = $1 and expires_at > now() returning 1;
