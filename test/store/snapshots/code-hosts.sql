-- recordBranchPoll
insert into branch_watches (deployment_id, tenant_id, repo_key, ref, commit_sha, look_at, attempts, last_error)
    values ($1, $2, $3, $4, $5, now() + $6 * interval '1 millisecond',
      $7, $8)
    on conflict (deployment_id) do update
       set repo_key = excluded.repo_key, ref = excluded.ref, commit_sha = excluded.commit_sha, looked_at = now(),
           pushed = array(select sha from unnest(branch_watches.pushed) with ordinality as p (sha, n)
                           where sha <> all($9::text[]) order by n),
           look_at = case when branch_watches.told = $10 then excluded.look_at else branch_watches.look_at end,
           attempts = case when excluded.last_error is null then 0 else branch_watches.attempts + 1 end,
           last_error = excluded.last_error;

-- receiveHostMessage
insert into host_deliveries (digest) select * from unnest($1::bytea[]) on conflict do nothing
      returning 1;

-- listPreviews
select p.number, d.id as "deploymentId", p.head_sha as "headSha",
           greatest(p.head_at, d.created_at, (select max(m.at) from metric_minutes m
              where m.deployment_id = d.id and m.requests > 0)) as "activeAt"
      from previews p left join deployments d
        on d.id = p.deployment_id and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')
     where p.parent_id = $1 order by p.number;

-- recordPreview
insert into previews (parent_id, number, tenant_id, deployment_id, head_sha)
    values ($1, $2, $3, $4, $5)
    on conflict (parent_id, number) do update
       set deployment_id = excluded.deployment_id, head_sha = excluded.head_sha, head_at = now(), attempts = 0,
           retry_at = null;

-- hasCommitSince
select 1 from revisions r
     where r.deployment_id = $1 and r.source = 'github' and r.redeploy_of is null
       and r.source_revision_config ->> 'repo_commit_sha' = $2
       and r.created_at >= $3 limit 1;
