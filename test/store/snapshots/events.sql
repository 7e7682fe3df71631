-- readNewEvents
with found as (
      (select * from events where id > $1 order by id limit $2)
      union all (select * from events where id = any($3::bigint[]) and id <= $4)
    ) select e.id, e.tenant_id, e.deployment_id, e.revision_id, e.kind, e.data, e.created_at, d.name as deployment_name, s.last_value as last
        from events_id_seq s left join found e on true left join deployments d on d.id = e.deployment_id;

-- findOpenTransactions
select pid || '/' || extract(epoch from xact_start) as name from pg_stat_activity
     where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
       and xact_start is not null
       and (backend_xid is not null or (state = 'active' and query_start > now() - interval '1 second'));
