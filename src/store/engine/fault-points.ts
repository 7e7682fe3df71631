/**
 * Every step after which a crash must lose nothing, in the order of a deployment's life. The store function that commits
 * a step reports it through `db.reached`; `npm run storm` kills the server at each of these points.
 */
export const faultPoints = [
  "listener session opened",
  "deployment created",
  "upload started",
  "upload finished",
  "settings changed",
  "branch polled",
  "push received",
  "push revisions created",
  "database provisioned",
  "revision queued",
  "revisions skipped",
  "revision awaiting build",
  "build claimed",
  "build process recorded",
  "build finished",
  "artifact accepted",
  "revision awaiting deploy",
  "rollout assigned",
  "report stored",
  "rollout finished",
  "rollout failed",
  "revision failed",
  "assignment settled",
  "revision interrupted",
  "build cancelled",
  "delete requested",
  "delete assigned",
  "deployment finalized",
  "deployment row deleted",
  "webhook deliveries created",
  "webhook deliveries claimed",
  "webhook delivery settled",
] as const;
export type FaultPoint = (typeof faultPoints)[number];
