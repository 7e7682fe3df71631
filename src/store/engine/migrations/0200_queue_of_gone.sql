-- additive
-- Each delete left a row of the queue behind, with nothing to do and for a deployment that is gone.
delete from reconcile_queue q where not exists (select from deployments d where d.id = q.deployment_id);
